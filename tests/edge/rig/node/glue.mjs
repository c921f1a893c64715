// Rewrites pyodide.asm.mjs for workerd: the calls that workerd refuses go to host/glue.mjs. The text is generated and
// not ours, so each replacement must match exactly as often as in the pinned version: anything else is an error.

const REPLACEMENTS = [
  ["new WebAssembly.Module(", 4, "rigGlue.newWasmModule("],
  ["WebAssembly.instantiate(", 2, "rigGlue.instantiate("],
  ["crypto.getRandomValues(", 1, "rigGlue.getRandomValues(Module,"],
  ["Date.now", 22, "rigGlue.dateNow"],
  ["performance.now()", 2, "rigGlue.performanceNow()"],
  ["=eval(func)", 2, "=rigGlue.noEval()"],
  ["eval(UTF8ToString(ptr))", 3, "rigGlue.noEval()"],
  ["eval(data)", 1, "rigGlue.noEval()"],
  // Without a message channel Python's event loop takes its steps by the request's own setTimeout.
  ['typeof globalThis.MessageChannel=="function"', 1, "false"],
];

/**
 * @param {string} source The text of pyodide.asm.mjs.
 * @returns {string} The text for workerd.
 */
export function patchGlue(source) {
  let text = source;
  for (const [wanted, times, put] of REPLACEMENTS) {
    const parts = text.split(wanted);
    if (parts.length - 1 !== times) {
      throw new Error(
        `pyodide.asm.mjs has ${JSON.stringify(wanted)} ${parts.length - 1} times instead of ${times}: ` +
          "look at what the new version of Pyodide does there, then correct node/glue.mjs",
      );
    }
    text = parts.join(put);
  }
  return `import { glue as rigGlue } from "./glue.mjs";\n${text}`;
}
