// Asks real D1 (workerd, driven by Miniflare) every case of d1_answers.json and writes its answers into the file.
//
//   node tests/edge/doubles/record_d1_answers.mjs FOLDER_WITH_NODE_MODULES
//
// To add a case: add it to the file without an answer, and run this. The cases run in their order on one database.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const require = createRequire(join(resolve(process.argv[2] ?? ".tools/edge"), "package.json"));
const { Miniflare, convertV4MiniflareOptions } = require("miniflare");
const FILE = new URL("d1_answers.json", import.meta.url);

const worker = `
const revive = (value) => (value !== null && typeof value === "object" && "$bytes" in value)
  ? new Uint8Array(value.$bytes) : value;
const prepared = (db, { sql, params }) => params ? db.prepare(sql).bind(...params.map(revive)) : db.prepare(sql);
const kept = ({ results, meta }) => ({ results, changes: meta.changes, changed: meta.changed_db });

async function ask(db, asked) {
  if (asked.exec !== undefined) return { count: (await db.exec(asked.exec)).count };
  if (asked.batch) return (await db.batch(asked.batch.map((one) => prepared(db, one)))).map(kept);
  const statement = prepared(db, asked);
  if (asked.method === "raw") return statement.raw({ columnNames: true });
  if (asked.method === "first") return asked.column ? statement.first(asked.column) : statement.first();
  return kept(await statement.all());
}

export default {
  async fetch(request, env) {
    const answered = [];
    for (const { answer, error, ...asked } of await request.json()) {
      try {
        answered.push({ ...asked, answer: await ask(env.DB, asked) });
      } catch (thrown) {
        answered.push({ ...asked, error: thrown.message });
      }
    }
    return Response.json(answered);
  },
};`;

const recorded = JSON.parse(readFileSync(FILE, "utf8"));
const options = { name: "d1", modules: true, script: worker, compatibilityDate: "2026-10-01", d1Databases: ["DB"] };
const miniflare = new Miniflare(convertV4MiniflareOptions({ cf: false, workers: [options] }));
try {
  const response = await miniflare.dispatchFetch("http://d1/", { method: "POST", body: JSON.stringify(recorded.cases) });
  const cases = (await response.json()).map((one) => "  " + JSON.stringify(one)).join(",\n");
  const from = `workerd ${require("workerd/package.json").version}`;
  writeFileSync(FILE, `{"from": ${JSON.stringify(from)}, "cases": [\n${cases}\n]}\n`);
} finally {
  await miniflare.dispose();
}
