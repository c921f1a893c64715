// What reaches the outside without a binding: fetch, sockets, and the one limit of WebCrypto.
import * as sockets from "cloudflare:sockets";

import { breach, callOut, current, limits, refuse } from "./invocations.mjs";

/** What stands for no stand-in: fetches go where they say. */
const REAL = "real";

/**
 * Replace the globals. Runs before Python starts.
 * @param {string | null} internet Where fetches go: `real`, the address of a stand-in for the internet, or nowhere.
 */
export function installOutbound(internet) {
  const realFetch = globalThis.fetch;
  globalThis.fetch = (...args) => {
    current().fetches += 1;
    return callOut("fetch", () => (internet === REAL ? realFetch(...args) : standinFetch(realFetch, internet, args)));
  };
  for (const method of ["deriveBits", "deriveKey"]) {
    const real = SubtleCrypto.prototype[method];
    SubtleCrypto.prototype[method] = async function derive(algorithm, ...rest) {
      checkIterations(algorithm);
      return await real.call(this, algorithm, ...rest);
    };
  }
}

/** The module `cloudflare:sockets` for Python: a socket counts as a subrequest and stays open until it is closed. */
export const countedSockets = {
  ...sockets,
  connect(...args) {
    const socket = sockets.connect(...args);
    callOut("socket", () => socket.closed).catch((error) => breach("socket", String(error)));
    return socket;
  },
};

/** Ask the stand-in, and tell it by a header which URL is meant. A host that it doesn't know fails as in workerd. */
async function standinFetch(realFetch, internet, args) {
  const meant = new Request(...args);
  if (!internet) {
    throw new Error("internal error; reference = 0");
  }
  const sent = new Request(internet, meant);
  sent.headers.set("x-original-url", meant.url);
  const answer = await realFetch(sent);
  if (answer.headers.has("x-no-such-host")) {
    await answer.body?.cancel();
    throw new Error("internal error; reference = 0");
  }
  return answer;
}

function checkIterations(algorithm) {
  const count = algorithm?.iterations;
  if (String(algorithm?.name).toUpperCase() === "PBKDF2" && count > limits.pbkdf2_iterations) {
    const refusal = `Pbkdf2 failed: iteration counts above ${limits.pbkdf2_iterations} are not supported (requested ${count}).`;
    refuse("pbkdf2-iterations", refusal, new DOMException(refusal, "NotSupportedError"));
  }
}
