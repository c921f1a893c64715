// The record of each invocation (a request, a batch of a queue, a cron event): what it called, how often, and which of
// production's rules it broke. Plain data only: nothing else may live from one invocation to the next.
import { AsyncLocalStorage } from "node:async_hooks";

import { realNow, tick } from "./clock.mjs";

/** What production allows an invocation on the free plan; tests may set each one. Sizes in bytes. */
export const limits = {
  d1_statements: 50,
  d1_parameters: 100,
  d1_sql_bytes: 100_000,
  d1_value_bytes: 2_000_000,
  subrequests: 50,
  connections: 6,
  queue_message_bytes: 128_000,
  queue_batch_messages: 100,
  queue_batch_bytes: 256_000,
  pbkdf2_iterations: 100_000,
};

/** How many records are kept: more than any test makes. */
const KEPT = 10_000;

const storage = new AsyncLocalStorage();
const records = [];
const unfinished = new Set();
let lastId = 0;

// Calls that belong to no invocation: there should be none, and each is a breach, because nothing could bound them.
const stray = newRecord({ kind: "stray", name: "" });

function newRecord(about) {
  return {
    id: lastId,
    method: null,
    messages: 0,
    started_ms: realNow(),
    ended_ms: null,
    status: null,
    error: null,
    d1: { statements: 0, round_trips: 0, rows_read: 0, rows_written: 0, unmeasured: 0, spent_ms: 0, each: [] },
    ai: 0,
    vectorize: {},
    queue_sends: 0,
    queue_messages: 0,
    retries: [],
    r2: {},
    kv: {},
    ratelimit: 0,
    ratelimit_ms: 0,
    fetches: 0,
    subrequests: 0,
    connections: 0,
    most_connections: 0,
    standin_ms: 0,
    breaches: [],
    ...about,
  };
}

/** The record of the invocation on whose behalf code runs now. */
export function current() {
  return storage.getStore()?.record ?? stray;
}

/** Do something for the test that no invocation of the Worker is charged with. */
export function offTheRecord(action) {
  return storage.run({ record: newRecord({ kind: "rig", name: "" }), keep() {} }, action);
}

/** Let the current invocation last until the promise is settled. */
export function keepUntil(promise) {
  storage.getStore()?.keep(promise);
}

/**
 * Run an invocation and record it; it is finished when its waitUntil promises are too.
 * @param {{kind: string, name: string, method?: string, messages?: number}} about What it is.
 * @param {(record: object) => Promise} action The handler.
 */
export async function invocation(about, action) {
  lastId += 1;
  const record = newRecord(about);
  records.push(record);
  if (records.length > KEPT) {
    records.shift();
  }
  unfinished.add(record);
  tick();
  let open = 1;
  const finish = () => {
    open -= 1;
    if (open === 0) {
      record.ended_ms = realNow();
      unfinished.delete(record);
    }
  };
  const keep = (promise) => {
    open += 1;
    promise.then(finish, finish);
  };
  try {
    return await storage.run({ record, keep }, () => action(record));
  } catch (error) {
    record.error ??= lastLine(String(error?.message ?? error));
    throw error;
  } finally {
    finish();
  }
}

/** A Python error's message is its whole traceback; the last line names it. */
function lastLine(text) {
  return text.trimEnd().split("\n").at(-1);
}

/** Records made after the one with that id, finished or not. */
export function recordsSince(id) {
  return records.filter((record) => record.id > id).concat(stray.breaches.length ? [stray] : []);
}

/** Take the breaches since then out of the record: a test has asked for them. */
export function forgive(id) {
  for (const record of recordsSince(id)) {
    record.breaches = [];
  }
}

export function lastRecordId() {
  return lastId;
}

/** What is running now, by kind and name. */
export function unfinishedNames() {
  return [...unfinished].map(({ kind, name }) => `${kind} ${name}`);
}

/** Wait for none of those that run now: workerd may have cancelled one as hung, and nothing tells when it does. */
export function forgetUnfinished() {
  unfinished.clear();
}

/** Record that the current invocation breaks a rule. */
export function breach(rule, detail) {
  current().breaches.push({ rule, detail });
}

/** Record a breach and refuse the call as production does. */
export function refuse(rule, detail, error) {
  breach(rule, detail);
  throw error;
}

/**
 * Make one call out of the Worker: it counts as a subrequest and, while it lasts, as an open connection; the clock
 * moves when its answer comes. Production lets a seventh connection wait; a Worker that needs one is still a breach,
 * because waiting calls can wait for each other for ever.
 */
export async function callOut(what, action) {
  const record = current();
  if (record === stray) {
    breach("stray", `${what} is called on behalf of no invocation`);
  }
  record.subrequests += 1;
  if (record.subrequests > limits.subrequests) {
    const error = new Error("Too many subrequests by single Worker invocation.");
    refuse("subrequests", `${what} is subrequest ${record.subrequests} of at most ${limits.subrequests}`, error);
  }
  record.connections += 1;
  record.most_connections = Math.max(record.most_connections, record.connections);
  if (record.connections > limits.connections) {
    breach("connections", `${what} opens connection ${record.connections} of at most ${limits.connections}`);
  }
  try {
    return await action();
  } finally {
    record.connections -= 1;
    tick();
  }
}
