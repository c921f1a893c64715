// D1 as production runs it: the real local database, with its statements counted and production's limits kept.
import { withFaults } from "./faults.mjs";
import { realNow } from "./clock.mjs";
import { breach, callOut, current, limits, refuse } from "./invocations.mjs";
import { proxied } from "./proxied.mjs";

const encoder = new TextEncoder();
let itemizing = false;

/** Keep, from now on, what each single statement took: texts are long, so records go without unless asked. */
export function itemize(wanted) {
  itemizing = wanted;
}

// Limits that local D1 keeps too: its refusal is a breach like those found here.
const LOCAL_REFUSALS = [
  [/too many SQL variables/i, "d1-parameters"],
  [/LIKE or GLOB pattern too complex/i, "like-pattern"],
  [/string or blob too big|SQLITE_TOOBIG/i, "d1-value-size"],
  [/statement too long/i, "d1-sql-size"],
];

/** Wrap a D1Database. */
export function wrapD1(database) {
  return proxied(database, {
    ...sessionMethods(database),
    exec(sql) {
      const lines = String(sql).trim().split("\n").map((line) => ({ statement: line, params: [] }));
      return send(lines, () => database.exec(sql));
    },
    withSession(constraint) {
      const session = database.withSession(constraint);
      return proxied(session, sessionMethods(session));
    },
    query(request) {
      const statements = request.queries.map(({ sql, params }) => ({ statement: sql, params: params ?? [] }));
      return send(statements, () => database.query(request), (answer) => answer.results);
    },
  });
}

function sessionMethods(session) {
  return {
    prepare: (sql) => wrapStatement(session.prepare(sql)),
    // D1 reads only the text and the parameters of each statement, which the wrapper shows.
    batch: (statements) => send(statements, () => session.batch(statements), (answers) => answers),
  };
}

function wrapStatement(statement) {
  return proxied(statement, {
    bind: (...values) => wrapStatement(statement.bind(...values)),
    all: () => send([statement], () => statement.all(), (answer) => [answer]),
    run: () => send([statement], () => statement.run(), (answer) => [answer]),
    // first() throws away what was read and written, so it is made of all() here.
    async first(column) {
      const answer = await send([statement], () => statement.all(), (whole) => [whole]);
      const row = answer.results[0];
      if (row === undefined || column === undefined) {
        return row ?? null;
      }
      if (row[column] === undefined) {
        throw new Error(`D1_COLUMN_NOTFOUND: Column not found (${column})`);
      }
      return row[column];
    },
    raw: (options) => send([statement], () => statement.raw(options)),
  });
}

/**
 * Count and check statements, send them in one round trip, and add up what they read and wrote.
 * @param {{statement: string, params: unknown[]}[]} statements What is sent.
 * @param {() => Promise} action Sends it.
 * @param {(answer: any) => {meta: object}[]} [metas] Finds the results' meta in the answer, when it has any.
 */
async function send(statements, action, metas) {
  const counts = current().d1;
  counts.statements += statements.length;
  counts.round_trips += 1;
  checkCount(counts.statements);
  statements.forEach(checkStatement);
  const texts = statements.map(({ statement }) => statement);
  const begunMs = realNow();
  const answer = await callOut("D1", () => withFaults("d1", texts, "D1_ERROR", action)).catch(noteRefusal);
  counts.spent_ms += realNow() - begunMs;
  if (!metas) {
    counts.unmeasured += statements.length;
    return answer;
  }
  metas(answer).forEach(({ meta: { rows_read, rows_written, duration } }, index) => {
    counts.rows_read += rows_read;
    counts.rows_written += rows_written;
    if (itemizing) {
      counts.each.push({ sql: texts[index], rows_read, rows_written, duration_ms: duration });
    }
  });
  return answer;
}

function noteRefusal(error) {
  for (const [text, rule] of LOCAL_REFUSALS) {
    if (text.test(error.message)) {
      breach(rule, error.message);
    }
  }
  throw error;
}

function checkCount(count) {
  if (count > limits.d1_statements) {
    const error = new Error("D1_ERROR: Too many API requests by single Worker invocation.");
    refuse("d1-statements", `${count} statements in an invocation, at most ${limits.d1_statements}`, error);
  }
}

function checkStatement({ statement, params }) {
  if (params.length > limits.d1_parameters) {
    const detail = `${params.length} bound parameters, at most ${limits.d1_parameters}`;
    refuse("d1-parameters", detail, new Error("D1_ERROR: too many SQL variables: SQLITE_ERROR"));
  }
  const sqlBytes = byteLength(statement);
  if (sqlBytes > limits.d1_sql_bytes) {
    const detail = `a statement of ${sqlBytes} bytes, at most ${limits.d1_sql_bytes}`;
    refuse("d1-sql-size", detail, new Error("D1_ERROR: statement too long: SQLITE_TOOBIG"));
  }
  for (const value of params) {
    // Blobs are arrays of bytes by now.
    const bytes = typeof value === "string" ? byteLength(value) : Array.isArray(value) ? value.length : 0;
    if (bytes > limits.d1_value_bytes) {
      const detail = `a value of ${bytes} bytes, at most ${limits.d1_value_bytes}`;
      refuse("d1-value-size", detail, new Error("D1_ERROR: string or blob too big: SQLITE_TOOBIG"));
    }
  }
}

function byteLength(text) {
  return encoder.encode(text).length;
}
