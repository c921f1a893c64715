// Starts Pyodide at global scope, in the steps of the production runtime: files, interpreter, the runtime's own
// helpers (which keep entropy out of global scope), search path, main module.
import bundle from "./bundle.bin";
import { openTimers } from "./clock.mjs";
import { glue } from "./glue.mjs";
import createPyodideModule from "./pyodide.asm.mjs";
import pyodideWasm from "./pyodide.asm.wasm";

const HOME = "/session";
const SOURCES = "/session/metadata";
const SHIMS = "/rig/shims";
// Hash randomisation needs entropy, which global scope hasn't: production fixes the seed too.
const ENVIRONMENT = { HOME, PYTHONHASHSEED: "111" };
// What marks an error in Pyodide's calls from Wasm to JavaScript and must be a Wasm reference no JavaScript can forge.
// The same module is inlined in pyodide.mjs, which isn't used here because it fetches its parts by URL.
const ERROR_MARK_WASM = "AGFzbQEAAAABDANfAGAAAW9gAW8BfwMDAgECBygCE0pzdl9HZXRFcnJvcl9pbXBvcnQAAA5Kc3ZFcnJvcl9DaGVjawABChMCBwD7AQD7GwsJACAA+xr7FAAL";

/** Unpack the bundle: 4 bytes of length (little endian), an index {path: [offset, size]} as JSON, then the contents. */
function* bundledFiles() {
  const indexBytes = new DataView(bundle).getUint32(0, true);
  const index = JSON.parse(new TextDecoder().decode(new Uint8Array(bundle, 4, indexBytes)));
  for (const [path, [offset, size]] of Object.entries(index)) {
    yield [path, new Uint8Array(bundle, 4 + indexBytes + offset, size)];
  }
}

function mountFiles(Module) {
  const made = new Set();
  for (const [path, contents] of bundledFiles()) {
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(folder)) {
      Module.FS.mkdirTree(folder);
      made.add(folder);
    }
    Module.FS.writeFile(path, contents, { canOwn: true });
  }
  Module.FS.mkdirTree(HOME);
}

function prepare(Module) {
  const version = Module.HEAPU32[Module._Py_Version >>> 2];
  Module.API.pyVersionTuple = [version >>> 24, (version >>> 16) & 0xff, (version >>> 8) & 0xff];
  const [major, minor] = Module.API.pyVersionTuple;
  Module.API.sitePackages = `/lib/python${major}.${minor}/site-packages`;
  Module.FS.mkdirTree(Module.API.sitePackages);
  Module.FS.mkdirTree(`/lib/python${major}.${minor}/lib-dynload`);
  mountFiles(Module);
  Object.assign(Module.ENV, ENVIRONMENT);
}

function instantiateWasm(imports, done) {
  const bytes = Uint8Array.from(atob(ERROR_MARK_WASM), (letter) => letter.charCodeAt(0));
  const mark = new WebAssembly.Instance(glue.newWasmModule(bytes)).exports;
  imports.env.Jsv_GetError_import = mark.Jsv_GetError_import;
  imports.env.JsvError_Check = mark.JsvError_Check;
  done(new WebAssembly.Instance(pyodideWasm, imports), pyodideWasm);
  return {};
}

/** Let Emscripten believe, while it looks around, that this is a browser's main thread, as production does. */
async function asBrowser(action) {
  const disguise = {
    window: { sessionStorage: {} },
    document: { createElement() {} },
    sessionStorage: {},
    importScripts: 1,
    WorkerGlobalScope: undefined,
    process: undefined,
  };
  const before = Object.fromEntries(
    Object.keys(disguise).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]),
  );
  for (const [name, value] of Object.entries(disguise)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  const promise = action();
  for (const [name, descriptor] of Object.entries(before)) {
    delete globalThis[name];
    if (descriptor) {
      Object.defineProperty(globalThis, name, descriptor);
    }
  }
  return await promise;
}

function runInternal(Module, code) {
  const [failed, told] = Module.API.rawRun(code);
  if (failed) {
    throw new Error(told);
  }
  return told;
}

/**
 * Start Python and import the Worker's main module.
 * @param {object} modules JavaScript modules that Python imports by name.
 * @param {string} mainName The main module's name.
 * @returns {Promise<object>} {Module, pyodide, main, introspection, beforeRequest}
 */
export async function startPython(modules, mainName) {
  const settings = {
    preRun: [prepare],
    instantiateWasm,
    locateFile: (name) => name,
    print: (line) => console.log(line),
    printErr: (line) => console.error(line),
    API: {
      config: { jsglobals: globalThis, env: ENVIRONMENT, lockFileURL: "", enableRunUntilComplete: true },
      runtimeEnv: { IN_WORKERD: true, IN_BROWSER: true, IN_BROWSER_MAIN_THREAD: true },
    },
  };
  const Module = await asBrowser(() => createPyodideModule(settings));
  glue.entropyFlag = Number(
    runInternal(Module, "from _cloudflare.allow_entropy import get_bad_entropy_flag as f; f(); del f"),
  );
  runInternal(Module, "from _cloudflare.entropy_patches import before_top_level as f; f(); del f");
  runInternal(Module, `import sys; sys.path.append("${SOURCES}"); del sys`);
  Module.API.finalizeBootstrap();
  const pyodide = Module.API.public_api;
  for (const [name, module] of Object.entries(modules)) {
    pyodide.registerJsModule(name, module);
  }
  runInternal(
    Module,
    `
from _cloudflare.setup_python_search_path import setup_python_search_path as f
f(LEGACY_VENDOR_PATH=False, PROCESS_PTH_FILES=True)
del f
import sys
sys.path.append("${SHIMS}")
del sys
`,
  );
  const main = await Module.API.pyodide_base.pyimport_impl.callPromising(mainName);
  // Production looks here whether global scope used up random numbers, then keeps a snapshot.
  runInternal(
    Module,
    `
from _cloudflare.import_patch_manager import after_snapshot_handlers as handlers
for handler in handlers: handler()
del handlers
try: del handler
except NameError: pass
`,
  );
  const introspection = pyodide.pyimport("_cloudflare.introspection");
  let opened = false;
  return {
    Module,
    pyodide,
    main,
    introspection,
    /** Leave global scope, once: reseed the random generators and open entropy and timers. */
    beforeRequest() {
      if (!opened) {
        opened = true;
        glue.inRequest = true;
        openTimers();
        runInternal(Module, "from _cloudflare.entropy_patches import before_first_request as f; f(); del f");
      }
    },
  };
}
