// The Worker that workerd sees: it starts Python at global scope and hands each event to the Python class `Default`.
import { WorkerEntrypoint, env as rawEnv } from "cloudflare:workers";
import * as workersModule from "cloudflare:workers";

import { wrapEnv } from "./bindings.mjs";
import { installClock } from "./clock.mjs";
import { makeControl } from "./control.mjs";
import { invocation } from "./invocations.mjs";
import { countedSockets, installOutbound } from "./outbound.mjs";
import { startPython } from "./python.mjs";
import { deliver, followQueues } from "./queues.mjs";
import { entrypointHelper } from "./waiting.mjs";

const config = rawEnv.__rig;
const env = wrapEnv(rawEnv, config);
followQueues(config.consumers, config.queueWaitS);
installClock();
installOutbound(config.internet);

const python = await startPython(
  {
    _pyodide_entrypoint_helper: entrypointHelper(workersModule, countedSockets, env),
    _cloudflare_compat_flags: Cloudflare.compatibilityFlags,
  },
  config.main,
);
if (!python.main.Default) {
  throw new Error(`The main module ${config.main} has no class Default(WorkerEntrypoint)`);
}
const modulesAtStart = python.pyodide.runPython("import sys; sorted(sys.modules)").toJs();

/** Make the Python object of this event, as production does for each, and call its handler. */
async function call(ctx, name, event, relaxed) {
  python.beforeRequest();
  const handler = await python.main.Default.callWithOptions({ promising: true }, ctx, env);
  try {
    if (!(name in handler)) {
      throw new TypeError(`The class Default has no method ${name}`);
    }
    const options = { promising: true };
    return await python.introspection.wrapper_func.callWithOptions(options, relaxed, handler, name, event);
  } finally {
    handler.destroy();
  }
}

export default class Default extends WorkerEntrypoint {
  fetch(request) {
    const about = { kind: "fetch", name: new URL(request.url).pathname, method: request.method };
    return invocation(about, async (record) => {
      const response = await call(this.ctx, "fetch", request, true);
      record.status = response.status;
      return response;
    });
  }

  scheduled(controller) {
    const about = { kind: "scheduled", name: controller.cron };
    return invocation(about, () => call(this.ctx, "scheduled", controller, false));
  }

  queue(batch) {
    const about = { kind: "queue", name: batch.queue, messages: batch.messages.length };
    return invocation(about, () => deliver(batch, (watched) => call(this.ctx, "queue", watched, false)));
  }
}

export const Control = makeControl(
  () => ({
    wasm_bytes: python.Module.HEAP8.length,
    modules_at_start: modulesAtStart,
    python: python.pyodide.version,
  }),
  env,
);
