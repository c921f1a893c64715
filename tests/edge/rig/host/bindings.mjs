// The `env` that Python gets: wrangler.toml's variables and bindings, each binding wrapped so that what it does is
// counted and held to production's rules. One for all invocations, as in production: the record that a call belongs to
// comes from the invocation that makes it.
import { realNow } from "./clock.mjs";
import { wrapD1 } from "./d1.mjs";
import { callOut, current } from "./invocations.mjs";
import { proxied } from "./proxied.mjs";
import { wrapQueue } from "./queues.mjs";
import { makeAi, makeVectorize } from "./standin.mjs";

const R2_METHODS = ["head", "get", "put", "delete", "list", "createMultipartUpload", "resumeMultipartUpload"];
const KV_METHODS = ["get", "getWithMetadata", "put", "delete", "list"];

/**
 * @param {object} raw workerd's env.
 * @param {object} config The rig's own configuration: `queues` (queue by binding), `ai`, `vectorize` (binding names),
 *   `standin` (its address).
 */
export function wrapEnv(raw, config) {
  const env = {};
  for (const [name, binding] of Object.entries(raw)) {
    if (!name.startsWith("__rig")) {
      env[name] = wrap(name, binding, config);
    }
  }
  for (const name of config.ai) {
    env[name] = makeAi(config.standin);
  }
  for (const name of config.vectorize) {
    env[name] = makeVectorize(config.standin);
  }
  return env;
}

function wrap(name, binding, config) {
  switch (binding?.constructor?.name) {
    case "D1Database":
      return wrapD1(binding);
    case "WorkerQueue":
      return wrapQueue(binding, config.queues[name]);
    case "R2Bucket":
      return counted(binding, "r2", R2_METHODS);
    case "KvNamespace":
      return counted(binding, "kv", KV_METHODS);
    case "Fetcher":
      return proxied(binding, { fetch: (...args) => callOut(name, () => binding.fetch(...args)) });
    case "Ratelimit":
      // Production answers it on the spot: it is no subrequest. Here it is a write into a database.
      return proxied(binding, {
        async limit(options) {
          const record = current();
          record.ratelimit += 1;
          const begunMs = realNow();
          try {
            return await binding.limit(options);
          } finally {
            record.ratelimit_ms += realNow() - begunMs;
          }
        },
      });
    default:
      return binding;
  }
}

function counted(binding, service, methods) {
  const wrapped = methods.map((method) => [
    method,
    (...args) => {
      const counts = current()[service];
      counts[method] = (counts[method] ?? 0) + 1;
      return callOut(`${service}.${method}`, () => binding[method](...args));
    },
  ]);
  return proxied(binding, Object.fromEntries(wrapped));
}
