// From wrangler.toml, the one source of bindings, to Miniflare's options: the same Worker with Python taken out of
// workerd's hands and put into ours.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { patchGlue } from "./glue.mjs";

const HOST = join(import.meta.dirname, "..", "host");
/** What the host needs: to know which invocation code runs for. */
const HOST_FLAG = "nodejs_als";

/**
 * @param {object} wrangler The wrangler package.
 * @param {object} given {wranglerToml, bundle, main, host, port, persist, vars, standin, internet, queueWaitS, pyodide}
 * @returns {object} Options of Miniflare's previous major version, which wrangler speaks.
 */
export function miniflareOptions(wrangler, given) {
  const config = wrangler.unstable_readConfig({ config: given.wranglerToml });
  // Two bindings have no local simulation: host/standin.mjs makes them. Secrets come from whoever starts the rig.
  const local = { ...config, ai: undefined, vectorize: [], secrets: undefined };
  const { workerOptions } = wrangler.unstable_getMiniflareWorkerOptions(local);
  const { modulesRules, compatibilityFlags, bindings, queueConsumers, queueProducers, ...options } = workerOptions;
  const consumers = withQueueWait(queueConsumers, given.queueWaitS);
  const rig = {
    main: given.main,
    standin: given.standin,
    internet: given.internet,
    ai: config.ai ? [config.ai.binding] : [],
    vectorize: config.vectorize.map(({ binding }) => binding),
    queues: Object.fromEntries(Object.entries(queueProducers).map(([name, { queueName }]) => [name, queueName])),
    consumers,
    queueWaitS: given.queueWaitS,
  };
  return {
    host: given.host,
    port: given.port,
    cf: false,
    telemetry: { enabled: false },
    unsafeTriggerHandlers: true,
    resourcePersistencePath: join(given.persist, "v3"),
    workers: [
      {
        ...options,
        modules: modules(given),
        // workerd would fetch a Python of its own for the flags left out.
        compatibilityFlags: [...compatibilityFlags.filter((flag) => !flag.startsWith("python_")), HOST_FLAG],
        // Miniflare takes JSON and nothing that is undefined.
        bindings: { ...bindings, ...given.vars, __rig: JSON.parse(JSON.stringify(rig)) },
        queueProducers,
        queueConsumers: consumers,
        unsafeEvalBinding: "__rig_eval",
        unsafeDirectSockets: [{ host: "127.0.0.1", port: 0, entrypoint: "Control" }],
      },
    ],
  };
}

/** Let no consumer wait longer than told, for a batch to fill or before a retry; null leaves wrangler.toml's delays. */
function withQueueWait(consumers, seconds) {
  if (seconds === null) {
    return consumers;
  }
  const changed = Object.entries(consumers).map(([queue, options]) => [
    queue,
    { ...options, maxBatchTimeout: seconds, retryDelay: seconds },
  ]);
  return Object.fromEntries(changed);
}

/** The modules of the Worker: the host, Pyodide for workerd, and the bundle of Python files. The first one is main. */
function modules({ pyodide, bundle }) {
  const names = readdirSync(HOST).filter((name) => name.endsWith(".mjs") && name !== "main.mjs");
  const host = ["main.mjs", ...names].map((path) => ({
    type: "ESModule",
    path,
    contents: readFileSync(join(HOST, path), "utf8"),
  }));
  const glue = patchGlue(readFileSync(join(pyodide, "pyodide.asm.mjs"), "utf8"));
  return [
    ...host,
    { type: "ESModule", path: "pyodide.asm.mjs", contents: glue },
    { type: "CompiledWasm", path: "pyodide.asm.wasm", contents: readFileSync(join(pyodide, "pyodide.asm.wasm")) },
    { type: "Data", path: "bundle.bin", contents: readFileSync(bundle) },
  ];
}
