// The rig's own door, on a port of its own, so that every path of the Worker stays the Worker's.
import { WorkerEntrypoint } from "cloudflare:workers";

import { realNow, setAhead } from "./clock.mjs";
import { itemize } from "./d1.mjs";
import { addFault, clearFaults } from "./faults.mjs";
import {
  forgetUnfinished,
  forgive,
  lastRecordId,
  limits,
  offTheRecord,
  recordsSince,
  unfinishedNames,
} from "./invocations.mjs";
import { waitingMessages } from "./queues.mjs";

// One request can't wake another in workerd, so waiting is looking again.
const LOOK_AGAIN_MS = 5;
const defaultLimits = { ...limits };

/**
 * @param {() => object} state Adds what only the Python side knows to GET /state.
 * @param {object} env The bindings, for messages that no Worker would send.
 * @returns {typeof WorkerEntrypoint} The entrypoint class.
 */
export function makeControl(state, env) {
  return class Control extends WorkerEntrypoint {
    async fetch(request) {
      const url = new URL(request.url);
      const route = `${request.method} ${url.pathname}`;
      switch (route) {
        case "GET /state":
          return Response.json({ last_id: lastRecordId(), limits, waiting: waitingMessages(), ...state() });
        case "GET /invocations":
          return Response.json(recordsSince(Number(url.searchParams.get("since"))));
        case "GET /idle":
          return Response.json(await waitUntilIdle(url.searchParams));
        case "GET /news":
          return Response.json(await waitForNews(url.searchParams));
        case "POST /limits":
          Object.assign(limits, defaultLimits, await request.json());
          return Response.json(limits);
        case "POST /clock":
          setAhead((await request.json()).ahead_ms);
          return Response.json({});
        case "POST /itemize":
          itemize(await request.json());
          return Response.json({});
        case "POST /messages": {
          const message = await request.json();
          await offTheRecord(() => env[url.searchParams.get("binding")].send(message));
          return Response.json({});
        }
        case "POST /faults":
          addFault(await request.json());
          return Response.json({});
        case "DELETE /faults":
          clearFaults();
          return Response.json({});
        case "POST /reset":
          clearFaults();
          Object.assign(limits, defaultLimits);
          setAhead(0);
          forgetUnfinished();
          return Response.json({});
        case "DELETE /breaches":
          forgive(Number(url.searchParams.get("since")));
          return Response.json({});
        default:
          return Response.json({ error: `no such route: ${route}` }, { status: 404 });
      }
    }
  };
}

/** Wait until no invocation runs and, with `queues=1`, no message is on its way; `idle` is false when time is up. */
async function waitUntilIdle(parameters) {
  const untilMs = realNow() + Number(parameters.get("timeout_ms"));
  const queues = parameters.get("queues") === "1";
  for (;;) {
    const waiting = queues ? Object.values(waitingMessages()).some((count) => count !== 0) : false;
    if (unfinishedNames().length === 0 && !waiting) {
      return { idle: true };
    }
    if (realNow() > untilMs) {
      return { idle: false, unfinished: unfinishedNames(), waiting: waitingMessages() };
    }
    await scheduler.wait(LOOK_AGAIN_MS);
  }
}

/** Wait until an invocation began or ended, or until time is up. */
async function waitForNews(parameters) {
  const untilMs = realNow() + Number(parameters.get("timeout_ms"));
  const before = parameters.get("seen");
  for (;;) {
    const now = `${lastRecordId()}:${unfinishedNames().length}`;
    if (now !== before || realNow() > untilMs) {
      return { seen: now };
    }
    await scheduler.wait(LOOK_AGAIN_MS);
  }
}
