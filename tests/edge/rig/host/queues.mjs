// Queues: what is sent is checked and counted, and what happens to each delivered message is followed, so that a test
// can wait until nothing is on its way any more.
import { withFaults } from "./faults.mjs";
import { callOut, current, limits, refuse } from "./invocations.mjs";
import { proxied } from "./proxied.mjs";

// Up to so much of a message's limit goes to metadata of production's own; counted in full here.
const OVERHEAD_BYTES = 100;
const encoder = new TextEncoder();

/** Messages on their way (sent, not yet acknowledged, dropped or moved on), by queue; queues without consumer aren't. */
const waiting = {};
let consumers = {};
let longestWaitS = Infinity;

/**
 * @param {Record<string, {maxRetries?: number, deadLetterQueue?: string}>} configured Consumers by queue.
 * @param {number | null} waitS The longest delay that a message gets, whatever the Worker asks for.
 */
export function followQueues(configured, waitS) {
  consumers = configured;
  longestWaitS = waitS ?? Infinity;
}

export function waitingMessages() {
  return { ...waiting };
}

function add(queue, count) {
  if (consumers[queue]) {
    waiting[queue] = (waiting[queue] ?? 0) + count;
  }
}

/** Wrap a WorkerQueue that sends to the named queue. */
export function wrapQueue(producer, queue) {
  return proxied(producer, {
    async send(body, options) {
      count(1);
      checkSize(messageBytes(body, options), "send");
      await call("send", queue, 1, () => producer.send(body, prompt(options)));
    },
    async sendBatch(given, options) {
      const messages = [...given];
      count(messages.length);
      checkBatch(messages);
      await call("sendBatch", queue, messages.length, () =>
        producer.sendBatch(messages.map(prompt), prompt(options)),
      );
    },
  });
}

/** The options of a message, its delay cut to the longest. */
function prompt(options) {
  return options?.delaySeconds > longestWaitS ? { ...options, delaySeconds: longestWaitS } : options;
}

async function call(method, queue, messages, action) {
  await callOut(`Queue.${method}`, () =>
    withFaults("queue", [method], `Queue ${method} failed`, async () => {
      await action();
      add(queue, messages);
    }),
  );
}

function count(messages) {
  const record = current();
  record.queue_sends += 1;
  record.queue_messages += messages;
}

function refuseSize(rule, method, detail) {
  refuse(rule, detail, new Error(`Queue ${method} failed: Payload Too Large`));
}

function checkSize(bytes, method) {
  if (bytes > limits.queue_message_bytes) {
    refuseSize("queue-message-size", method, `a message of ${bytes} bytes, at most ${limits.queue_message_bytes}`);
  }
}

function checkBatch(messages) {
  const most = limits.queue_batch_messages;
  if (messages.length > most) {
    refuseSize("queue-batch-count", "sendBatch", `${messages.length} messages in a batch, at most ${most}`);
  }
  let sum = 0;
  for (const message of messages) {
    const bytes = messageBytes(message.body, message);
    checkSize(bytes, "sendBatch");
    sum += bytes;
  }
  if (sum > limits.queue_batch_bytes) {
    const detail = `a batch of ${sum} bytes, at most ${limits.queue_batch_bytes}`;
    refuseSize("queue-batch-size", "sendBatch", detail);
  }
}

/** Bytes that a message counts for: its body and what production may add. */
function messageBytes(body, { contentType = "json" } = {}) {
  if (contentType === "bytes") {
    return body.byteLength + OVERHEAD_BYTES;
  }
  const text = contentType === "text" ? body : (JSON.stringify(body) ?? "");
  return encoder.encode(text).length + OVERHEAD_BYTES;
}

/**
 * Hand a batch to the handler and follow its messages: as locally, an exception or retryAll() sends all of them back.
 * @param {object} batch The QueueController.
 * @param {(batch: object) => Promise} handler Gets the batch, its methods watched.
 */
export async function deliver(batch, handler) {
  const retried = new Set();
  let all = false;
  const messages = batch.messages.map((message) =>
    proxied(message, {
      retry(options) {
        retried.add(message);
        current().retries.push(options?.delaySeconds ?? null);
        message.retry(prompt(options));
      },
    }),
  );
  const watched = proxied(batch, {
    messages,
    retryAll(options) {
      all = true;
      current().retries.push(...messages.map(() => options?.delaySeconds ?? null));
      batch.retryAll(prompt(options));
    },
  });
  try {
    return await handler(watched);
  } catch (error) {
    all = true;
    throw error;
  } finally {
    for (const message of batch.messages) {
      settle(batch.queue, message, all || retried.has(message));
    }
  }
}

function settle(queue, message, again) {
  const { maxRetries = 2, deadLetterQueue } = consumers[queue] ?? {};
  if (again && message.attempts <= maxRetries) {
    return;
  }
  add(queue, -1);
  if (again && deadLetterQueue) {
    add(deadLetterQueue, 1);
  }
}
