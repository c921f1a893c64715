// Runs the Worker until told to stop. One line of JSON on stdin says what to run (node/options.mjs names the fields);
// lines of JSON on stdout say what happens. SIGTERM, SIGINT and the end of stdin (the parent is gone) all end it.
import childProcess from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

const write = process.stdout.write.bind(process.stdout);
const emit = (event, fields) => write(`${JSON.stringify({ event, ...fields })}\n`);
for (const level of ["log", "info", "warn", "error", "debug"]) {
  console[level] = (...parts) => emit("log", { source: "node", level, message: parts.map(String).join(" ") });
}

// Miniflare doesn't tell workerd's process id, and who starts a process must be able to see that it is gone.
const started = [];
const realSpawn = childProcess.spawn;
childProcess.spawn = (...args) => {
  const child = realSpawn(...args);
  started.push(child);
  return child;
};

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const given = JSON.parse((await lines.next()).value);
const require = createRequire(join(given.tools, "package.json"));
const wrangler = require("wrangler");
// The very Miniflare that wrangler was built for.
const { convertV4MiniflareOptions, Log, Miniflare } = createRequire(require.resolve("wrangler"))("miniflare");
const { miniflareOptions } = await import("./options.mjs");
const { applyMigrations } = await import("./migrations.mjs");

class Told extends Log {
  log(message) {
    emit("log", { source: "miniflare", level: "info", message });
  }
}

let miniflare;
let stopping = false;
async function stop(code) {
  if (!stopping) {
    stopping = true;
    await miniflare?.dispose().catch(() => {});
    // Dispose kills them, but they are gone only once their parent has taken note.
    const alive = started.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    await Promise.all(alive.map((child) => once(child, "exit")));
    process.exit(code);
  }
}

/** Answer signals ourselves: Miniflare would exit at once and leave a killed workerd for others to take note of. */
function takeSignals() {
  for (const name of ["SIGTERM", "SIGINT"]) {
    process.removeAllListeners(name);
    process.on(name, () => stop(0));
  }
}

/** What went wrong, for a person: workerd writes its errors as JSON, a line each. */
function readable(error) {
  if (error?.code !== "ERR_RUNTIME_FAILURE") {
    return String(error?.stack ?? error);
  }
  return error.message.split("\n").map(messageOf).join("\n");
}

function messageOf(line) {
  try {
    return JSON.parse(line).message;
  } catch {
    return line;
  }
}

/** CPU seconds of a process, from Linux's /proc in ticks of 10 ms; null elsewhere. */
function cpuSeconds(pid) {
  if (process.platform !== "linux") {
    return null;
  }
  const [, rest] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [userTicks, systemTicks] = rest.split(" ").slice(11, 13).map(Number);
  return (userTicks + systemTicks) / 100;
}

async function start() {
  const pyodide = dirname(require.resolve("pyodide/pyodide.asm.wasm"));
  const options = {
    ...miniflareOptions(wrangler, { ...given, pyodide }),
    log: new Told(given.logLevel),
    handleUncaughtError: (error) => emit("log", { source: "worker", level: "error", message: error.stack }),
    handleStructuredLogs: ({ level, message }) => emit("log", { source: "worker", level, message }),
  };
  miniflare = new Miniflare(convertV4MiniflareOptions(options));
  takeSignals();
  const url = await miniflare.ready;
  const cpuS = cpuSeconds(started[0].pid);
  const config = wrangler.unstable_readConfig({ config: given.wranglerToml });
  await applyMigrations(miniflare, wrangler, dirname(given.wranglerToml), config.d1_databases);
  const control = await miniflare.unsafeGetDirectURL(undefined, "Control");
  emit("ready", { url: url.origin, control: control.origin, pids: started.map(({ pid }) => pid), cpu_s: cpuS });
}

try {
  await start();
} catch (error) {
  emit("failed", { message: readable(error) });
  await stop(1);
}
await lines.next();
await stop(0);
