// What reaches the outside without a binding: fetch, sockets, and the one limit of WebCrypto.
import * as sockets from "cloudflare:sockets";

import { breach, callOut, current, limits, refuse } from "./invocations.mjs";

/** Replace the globals. Runs before Python starts. */
export function installOutbound() {
  const realFetch = globalThis.fetch;
  globalThis.fetch = (...args) => {
    current().fetches += 1;
    return callOut("fetch", () => realFetch(...args));
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

function checkIterations(algorithm) {
  const count = algorithm?.iterations;
  if (String(algorithm?.name).toUpperCase() === "PBKDF2" && count > limits.pbkdf2_iterations) {
    const refusal = `Pbkdf2 failed: iteration counts above ${limits.pbkdf2_iterations} are not supported (requested ${count}).`;
    refuse("pbkdf2-iterations", refusal, new DOMException(refusal, "NotSupportedError"));
  }
}
