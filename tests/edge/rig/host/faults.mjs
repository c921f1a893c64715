// Failures on demand: which calls of D1 and of queues fail, how often, and with which text.

// [{service, message, times, after, on, applied}], oldest first.
const faults = [];

export function addFault(fault) {
  faults.push(fault);
}

export function clearFaults() {
  faults.length = 0;
}

/**
 * Run a call, or the fault that is due for it: refused before it is sent, or (`applied`) failing after it took effect,
 * as when the answer is lost on the way.
 * @param {string} service `d1` or `queue`.
 * @param {string[]} names What the call is known by; a fault may ask for one that contains its `on`.
 * @param {string} prefix What production puts before the fault's text.
 * @param {() => Promise} action Makes the call.
 */
export async function withFaults(service, names, prefix, action) {
  const fault = faults.find((each) => each.service === service && each.times > 0 && concerns(each, names));
  if (!fault) {
    return await action();
  }
  if (fault.after > 0) {
    fault.after -= 1;
    return await action();
  }
  fault.times -= 1;
  if (fault.applied) {
    await action();
  }
  throw new Error(`${prefix}: ${fault.message}`);
}

function concerns({ on }, names) {
  return on === null || names.some((name) => name.toLowerCase().includes(on.toLowerCase()));
}
