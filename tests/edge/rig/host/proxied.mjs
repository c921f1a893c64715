// The SDK knows a binding by the name of its class, so a wrapper must keep it: a proxy does, and shows everything else
// of the binding as it is.

/**
 * @param {object} target A binding or what it returns.
 * @param {Record<string, unknown>} members What to answer instead of the target's own methods and values.
 * @returns {object} A proxy for the target.
 */
export function proxied(target, members) {
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(members, name)) {
        return members[name];
      }
      // Methods and getters of workerd's objects refuse to run on anything but the object itself.
      const value = Reflect.get(target, name, target);
      return typeof value === "function" && name !== "constructor" ? value.bind(target) : value;
    },
  });
}
