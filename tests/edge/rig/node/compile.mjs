// Compiles Python files with the Pyodide that will run them: `node compile.mjs PYODIDE`, jobs [{path, source, target}]
// as JSON on stdin. `path` is where the Worker will find the source; an empty target means that it isn't Python.
import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const COMPILE = `
import py_compile, warnings

warnings.simplefilter("ignore")

def compile_one(source, path):
    with open("/tmp/source.py", "wb") as file:
        file.write(source.to_bytes())
    # Unchecked: the import system takes it without looking at the source again.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    try:
        py_compile.compile("/tmp/source.py", "/tmp/compiled", path, doraise=True, invalidation_mode=mode)
    except py_compile.PyCompileError:
        return b""
    with open("/tmp/compiled", "rb") as file:
        return file.read()

compile_one
`;

const jobs = JSON.parse(readFileSync(0, "utf8"));
const pyodidePath = process.argv[2];
const { loadPyodide } = await import(pathToFileURL(join(pyodidePath, "pyodide.mjs")));
const pyodide = await loadPyodide({ indexURL: pyodidePath });
const compileOne = pyodide.runPython(COMPILE);
for (const { path, source, target } of jobs) {
  const code = compileOne(new Uint8Array(readFileSync(source)), path);
  const bytes = code.toJs();
  code.destroy();
  // Others may compile the same file at the same time: a file is there whole or not at all.
  const draft = `${target}.${randomUUID()}`;
  writeFileSync(draft, bytes);
  renameSync(draft, target);
}
process.exit(0);
