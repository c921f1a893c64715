// Applies D1 migrations as `wrangler d1 migrations apply --local` does, and keeps the same list of them, so that either
// finds what the other has done.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const TABLE = "d1_migrations";

/**
 * Bring every database of wrangler.toml that has a folder of migrations up to date.
 * @param {object} miniflare A running Miniflare.
 * @param {object} wrangler The wrangler package.
 * @param {string} project The folder that migrations_dir is relative to.
 * @param {object[]} databases `d1_databases` of the configuration.
 */
export async function applyMigrations(miniflare, wrangler, project, databases) {
  for (const { binding, migrations_dir: folder, migrations_table: table = TABLE } of databases) {
    if (folder) {
      await applyAll(await miniflare.getD1Database(binding), wrangler, join(project, folder), table);
    }
  }
}

async function applyAll(database, wrangler, folder, table) {
  const create = `CREATE TABLE IF NOT EXISTS ${table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT UNIQUE,
    applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
  )`;
  await database.prepare(create).run();
  const { results } = await database.prepare(`SELECT name FROM ${table}`).all();
  const applied = new Set(results.map(({ name }) => name));
  const names = readdirSync(folder).filter((name) => name.endsWith(".sql") && !applied.has(name));
  for (const name of names.sort()) {
    const statements = wrangler.unstable_splitSqlQuery(readFileSync(join(folder, name), "utf8"));
    await database.batch([
      ...statements.map((sql) => database.prepare(sql)),
      database.prepare(`INSERT INTO ${table} (name) VALUES (?)`).bind(name),
    ]);
  }
}
