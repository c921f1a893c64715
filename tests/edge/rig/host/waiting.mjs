// waitUntil for Python, and the module `_pyodide_entrypoint_helper` through which the SDK reaches JavaScript.
import { WorkerEntrypoint } from "cloudflare:workers";

import { keepUntil } from "./invocations.mjs";

const patched = new WeakSet();

/**
 * Build the helper module.
 * @param {object} workersModule `cloudflare:workers`.
 * @param {object} socketsModule `cloudflare:sockets`.
 * @param {object} env What Python code sees as the module's env.
 */
export function entrypointHelper(workersModule, socketsModule, env) {
  const waitUntil = pythonWaitUntil((promise) => workersModule.waitUntil(promise));
  return {
    doAnImport: (name) => import(name),
    cloudflareWorkersModule: { ...workersModule, env, waitUntil },
    cloudflareSocketsModule: socketsModule,
    workerEntrypoint: WorkerEntrypoint,
    patchWaitUntil(ctx) {
      if (!patched.has(ctx)) {
        patched.add(ctx);
        ctx.waitUntil = pythonWaitUntil(ctx.waitUntil.bind(ctx));
      }
    },
  };
}

/** Make a waitUntil that takes Python futures too, and by which the invocation's record lasts as long. */
function pythonWaitUntil(real) {
  return (promise) => {
    const done = held(promise);
    keepUntil(done);
    real(done);
  };
}

/** Wait for a promise; a Python future lives only as long as somebody holds it, so hold a copy of our own. */
async function held(promise) {
  const own = "copy" in promise ? promise.copy() : promise;
  try {
    await own;
  } finally {
    if ("destroy" in own) {
      own.destroy();
    }
  }
}
