// The clock that Worker code sees: it stands still between I/O, as in production, where time never passes while code
// runs. Local workerd lets it run on. The rig itself measures with `realNow`, taken before anything is replaced.

const RealDate = Date;
export const realNow = RealDate.now.bind(RealDate);
const realPerformanceNow = performance.now.bind(performance);
const realSetTimeout = globalThis.setTimeout;
const realSetInterval = globalThis.setInterval;

// At global scope time is 1970 and doesn't move.
let frozenMs = 0;
let frozenPerformanceMs = 0;
let inRequest = false;
// Added to what code sees, so that a test needn't wait for tomorrow.
let aheadMs = 0;

/** Let the clock catch up: an event came in (a request, the answer of a binding, a timer that waited). */
export function tick() {
  frozenMs = realNow() + aheadMs;
  frozenPerformanceMs = realPerformanceNow();
}

/** Let the clock be ahead of the real one from the next event on; timers wait as long as ever. */
export function setAhead(ms) {
  aheadMs = ms;
}

/** Milliseconds since 1970 as JavaScript code sees them. */
export function dateNow() {
  return frozenMs;
}

/** Milliseconds of `performance.now()` as code sees them. */
export function performanceNow() {
  return frozenPerformanceMs;
}

let lastNowMs = -1;
let readings = 0;

/**
 * Milliseconds since 1970 as Python sees them. The production runtime adds a millisecond for each reading within the
 * same instant (so that a changed folder gets a new time and imports see it), and so does this: `time.time()` may run
 * ahead of the clock and step back at the next I/O.
 */
export function pythonDateNow() {
  if (frozenMs === lastNowMs) {
    readings += 1;
  } else {
    lastNowMs = frozenMs;
    readings = 0;
  }
  return frozenMs + readings;
}

/** Take the clock and the timers of the global object out of the Worker's hands. Runs before Python starts. */
export function installClock() {
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, given, newTarget) => Reflect.construct(target, given.length ? given : [frozenMs], newTarget),
    apply: () => new RealDate(frozenMs).toString(),
    get: (target, name) => (name === "now" ? dateNow : Reflect.get(target, name)),
  });
  Object.defineProperty(performance, "now", { value: performanceNow, configurable: true });
  // A timer of zero is Python's event loop taking its next step, not a wait: it doesn't move the clock.
  globalThis.setTimeout = (handler, delayMs, ...args) => {
    if (!inRequest) {
      return startupTimeout(handler, delayMs);
    }
    return realSetTimeout(ticking(handler, delayMs), delayMs, ...args);
  };
  globalThis.setInterval = (handler, delayMs, ...args) => realSetInterval(ticking(handler, delayMs), delayMs, ...args);
}

/** Leave global scope: from now on timers are real ones, of the request that sets them. */
export function openTimers() {
  inRequest = true;
}

function ticking(handler, delayMs) {
  if (!(delayMs > 0)) {
    return handler;
  }
  return (...args) => {
    tick();
    return handler(...args);
  };
}

/** At global scope the event loop runs on microtasks; a real wait is left to workerd, which refuses it there. */
function startupTimeout(handler, delayMs) {
  if (delayMs) {
    return realSetTimeout(handler, delayMs);
  }
  queueMicrotask(handler);
  return 0;
}
