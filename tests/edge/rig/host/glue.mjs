// What pyodide.asm.mjs calls instead of things that workerd refuses or the rig must answer itself (node/glue.mjs makes
// the replacements in its text).
import { env } from "cloudflare:workers";

import { performanceNow, pythonDateNow } from "./clock.mjs";

const unsafeEval = env.__rig_eval;

export const glue = {
  /** Address of the byte in which Python counts the entropy calls that it lets through at global scope. */
  entropyFlag: 0,
  inRequest: false,

  newWasmModule: (bytes) => unsafeEval.newWasmModule(bytes),

  async instantiate(source, imports) {
    const module = source instanceof WebAssembly.Module ? source : unsafeEval.newWasmModule(source);
    return { module, instance: new WebAssembly.Instance(module, imports) };
  },

  dateNow: pythonDateNow,
  performanceNow,

  /** Entropy as production gives it: none at global scope, but for calls the runtime counted in advance. */
  getRandomValues(Module, array) {
    if (glue.inRequest) {
      return crypto.getRandomValues(array);
    }
    if (!Module.HEAP8[glue.entropyFlag]) {
      Module._dump_traceback();
      throw new Error("entropy at global scope: Disallowed operation called within global scope");
    }
    Module.HEAP8[glue.entropyFlag] -= 1;
    return array.fill(43);
  },

  noEval() {
    throw new Error("Emscripten's glue wants eval, which the production runtime refuses too");
  },
};
