// Vectorize and Workers AI, which exist nowhere but at Cloudflare: each call goes to a local process over HTTP, with
// the arguments as JSON. The SDK knows bindings by their classes' names, so these must be exactly the real ones.
import { realNow } from "./clock.mjs";
import { callOut, current } from "./invocations.mjs";

// Taken before outbound.mjs replaces it: the way to the stand-in isn't a fetch of the Worker's.
const realFetch = globalThis.fetch;

const VECTORIZE_METHODS = ["describe", "query", "queryById", "insert", "upsert", "deleteByIds", "getByIds"];

class Ai {
  #url;

  constructor(url) {
    this.#url = url;
  }

  run(...args) {
    current().ai += 1;
    return ask(this.#url, "ai/run", args);
  }
}

class VectorizeIndexImpl {
  constructor(url) {
    for (const method of VECTORIZE_METHODS) {
      this[method] = (...args) => {
        const counts = current().vectorize;
        counts[method] = (counts[method] ?? 0) + 1;
        return ask(url, `vectorize/${method}`, args);
      };
    }
  }
}

/** @param {string | null} url Where the stand-in listens; without one each call fails and says so. */
export function makeAi(url) {
  return new Ai(url);
}

export function makeVectorize(url) {
  return new VectorizeIndexImpl(url);
}

async function ask(url, path, args) {
  if (!url) {
    throw new Error(`${path}: the rig was started without a stand-in for Vectorize and Workers AI`);
  }
  const record = current();
  return await callOut(path, async () => {
    const begunMs = realNow();
    try {
      const response = await realFetch(`${url}/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ args }, plainArrays),
      });
      const answer = await response.json();
      if (response.ok) {
        return answer.result;
      }
      const error = new Error(answer.error.message);
      error.name = answer.error.name;
      throw error;
    } finally {
      record.standin_ms += realNow() - begunMs;
    }
  });
}

function plainArrays(_, value) {
  return ArrayBuffer.isView(value) ? Array.from(value) : value;
}
