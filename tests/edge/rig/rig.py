"""Runs the real Python Worker on this machine, and tells tests what it did.

Unchanged Worker code runs in the Pyodide of production inside the real workerd, on Miniflare's D1, Queues, R2, cron
and rate limits. What production enforces and a local workerd doesn't is enforced by host/*.mjs: a breach is recorded
with the invocation that made it.
"""

import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import httpx
from tests.edge.doubles.invocation import ProductionRuleBroken
from tests.edge.rig.bundle import pack
from tests.edge.rig.process import LogLine, NodeProcess
from tests.edge.rig.records import Breach, Invocation
from tests.edge.rig.tools import TOOLS, RigError, check_tools

HOST: Final = "127.0.0.1"
IDLE_S: Final = 20.0
"""How long running invocations and waiting messages get to finish."""
LEFT_OVER_S: Final = 5.0
"""How long the end of a test waits for what its handlers have left running."""
REAL_INTERNET: Final = "real"
LOG_WARN: Final = 2
"""Miniflare's log level: warnings and errors."""


class Rig:
    """The Worker of a project, running.

    Use it as a context manager, or call `start` and `stop`. All methods are synchronous; the Worker itself answers
    HTTP at `url`.
    """

    def __init__(
        self,
        project: Path,
        persist: Path,
        *,
        sources: Path | None = None,
        python_modules: Path | None = None,
        port: int = 0,
        variables: Mapping[str, str] | None = None,
        standin: str | None = None,
        internet: str | None = None,
        queue_wait_s: float | None = None,
        on_log: Callable[[LogLine], None] | None = None,
    ) -> None:
        """Describe what to run.

        Args:
            project: The folder that holds wrangler.toml.
            persist: Where D1 and R2 keep their data, as wrangler's `--persist-to`. Queued messages live in memory.
            sources: The staged Worker; by default the folder of wrangler.toml's `main`.
            python_modules: The vendored packages; by default `python_modules` of the project.
            port: Where the Worker listens on 127.0.0.1; 0 = any free port, kept by `restart`.
            variables: Variables and secrets beside those of wrangler.toml.
            standin: The address of the stand-in for Vectorize and Workers AI.
            internet: Where the Worker's fetches go: the address of a stand-in (tests/edge/doubles/internet.py), or
                REAL_INTERNET. Without one every fetch fails, as that of a host which isn't there.
            queue_wait_s: The longest that a queued message waits: for others to fill a batch, before a retry, or as the
                Worker asks. By default as wrangler.toml and the Worker say; tests wait for nothing with 0.
            on_log: Gets each line that is logged, in a thread of its own.
        """
        self.project = project
        self.persist = persist
        configuration = tomllib.loads((project / "wrangler.toml").read_text(encoding="utf-8"))
        self.main = Path(configuration["main"])
        self._without: Sequence[str] = configuration.get("python_modules", {}).get("exclude", ())
        self.sources = sources or (project / self.main).parent
        self.python_modules = python_modules or project / "python_modules"
        self.standin = standin
        self.internet = internet
        self._port = port
        self._variables = dict(variables or {})
        self._queue_wait_s = queue_wait_s
        self._on_log = on_log
        self._process: NodeProcess | None = None
        self._ready: Mapping[str, Any] = {}
        self._client = httpx.Client(timeout=IDLE_S + 10, trust_env=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Life

    def start(self) -> None:
        """Pack the Worker, start it and wait until it answers. RigError when it doesn't; the message holds the log."""
        check_tools()
        with tempfile.TemporaryDirectory(prefix="shoal-edge-") as folder:
            bundle = Path(folder, "bundle.bin")
            pack(self.sources, self.python_modules, bundle, self._without)
            options = {
                "tools": str(TOOLS),
                "wranglerToml": str(self.project / "wrangler.toml"),
                "bundle": str(bundle),
                "main": self.main.stem,
                "host": HOST,
                "port": self._port,
                "persist": str(self.persist),
                "vars": self._variables,
                "standin": self.standin,
                "internet": self.internet,
                "queueWaitS": self._queue_wait_s,
                "logLevel": LOG_WARN,
            }
            self._process = NodeProcess(options, self._on_log)
            try:
                self._ready = self._process.ready()
            except BaseException:  # Ctrl-C too
                self.stop()
                raise
        self._port = int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        """Stop the Worker; return when Node and workerd are gone. What D1 and R2 hold stays."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def restart(self) -> None:
        """Stop and start on the same port with the same data, from the sources as they are now."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, for good."""
        self.stop()
        self._client.close()

    def wait(self) -> int:
        """Wait until the processes end by themselves, and return Node's exit code."""
        return self._running().wait()

    # What it is

    @property
    def url(self) -> str:
        """The Worker's address, without a slash at the end."""
        return self._ready["url"]

    def pids(self) -> list[int]:
        """Return the processes that Node has started: workerd."""
        return self._ready["pids"]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that workerd had used when the Worker was ready, seen from outside (Linux only).

        Python's clock stands still at global scope, so nothing inside can measure it. Most of it is the compilation of
        Pyodide and the start of the interpreter: compare with a Worker that imports nothing.
        """
        if self._ready["cpu_s"] is None:
            raise RigError("this system has no /proc to read the CPU time of a process from")
        return self._ready["cpu_s"]

    def wasm_bytes(self) -> int:
        """Return the size of Python's memory now; it never shrinks. The isolate may use 128 MB, JavaScript included."""
        return self._state()["wasm_bytes"]

    def modules_at_start(self) -> list[str]:
        """Return the names of all Python modules that global scope has imported."""
        return self._state()["modules_at_start"]

    def log(self) -> list[LogLine]:
        """Return what the Worker and those who run it have written, oldest first."""
        return self._running().log()

    # Events

    def cron(self, expression: str, time_ms: int | None = None) -> None:
        """Fire a cron trigger and wait until its handler is done.

        Args:
            expression: The trigger, such as `*/5 * * * *`.
            time_ms: The time it is scheduled for, milliseconds since 1970; now by default.

        Raises:
            RigError: the handler raised.
        """
        parameters = {"cron": expression, "time": str(time_ms if time_ms is not None else time.time_ns() // 1_000_000)}
        answer = self._client.get(f"{self.url}/cdn-cgi/local/scheduled", params=parameters)
        if answer.text != "ok":
            raise RigError(f"the handler of cron {expression!r} failed: {answer.text}")

    def send(self, binding: str, body: object) -> None:
        """Send a message to the queue of a binding, such as no Worker would send."""
        self._call("POST", "/messages", {"binding": binding}, body)

    def set_clock(self, ahead_s: float) -> None:
        """Let the Worker's clock be so far ahead of the real one, from its next event on. Timers wait as ever."""
        self._call("POST", "/clock", body={"ahead_ms": round(ahead_s * 1000)})

    # What it did

    def mark(self) -> int:
        """Return a point in time for `invocations` and `breaches`."""
        return self._state()["last_id"]

    def invocations(self, since: int = 0) -> list[Invocation]:
        """Return the invocations after a mark, once none is running any more (waitUntil included)."""
        self._idle(queues=False)
        return self._invocations(since)

    def breaches(self, since: int = 0) -> list[Breach]:
        """Return the rules broken after a mark."""
        return [breach for invocation in self.invocations(since) for breach in invocation.breaches]

    def itemize(self, wanted: bool) -> None:
        """Keep with each invocation what every single statement of D1 read, wrote and took, or keep it no more."""
        self._call("POST", "/itemize", body=wanted)

    @contextmanager
    def watched(self) -> Generator[Self]:
        """Run one test: what it does may break no rule. Faults, limits and the clock that it set are taken back.

        Raises:
            ProductionRuleBroken: it has broken some, and the error names each.
        """
        since = self.mark()
        try:
            yield self
        finally:
            # What a handler has left to waitUntil belongs to the test too.
            self._call("GET", "/idle", {"queues": "0", "timeout_ms": str(int(LEFT_OVER_S * 1000))})
            done = self._invocations(since)
            self.reset()
        broken = [
            (breach.rule, f"{breach.detail} ({invocation.kind} {invocation.name})")
            for invocation in done
            for breach in invocation.breaches
        ]
        if broken:
            rule = ", ".join(dict(broken))
            raise ProductionRuleBroken(rule, "; ".join(detail for _, detail in broken))

    @contextmanager
    def breaking(self, rule: str) -> Generator[None]:
        """Expect that what is done inside breaks exactly this rule: it is then forgiven."""
        since = self.mark()
        yield
        broken = {breach.rule for breach in self.breaches(since)}
        assert broken == {rule}, f"expected a breach of {rule}, found {sorted(broken) or 'none'}"
        self._call("DELETE", "/breaches", {"since": str(since)})

    def drain(self) -> None:
        """Wait until no invocation runs and no queue has a message on its way, retries and dead letters included."""
        self._idle(queues=True)

    def wait_for(self, condition: Callable[[Sequence[Invocation]], object], what: str, since: int = 0) -> None:
        """Wait until the invocations after a mark, running ones included, meet a condition."""
        deadline = time.monotonic() + IDLE_S
        seen = ""
        while not condition(self._invocations(since)):
            if time.monotonic() > deadline:
                raise RigError(f"not within {IDLE_S:.0f} s: {what}")
            seen = self._call("GET", "/news", {"seen": seen, "timeout_ms": "1000"})["seen"]

    # What it must bear

    def fail(
        self,
        service: str,
        message: str,
        *,
        times: int = 1,
        after: int = 0,
        on: str | None = None,
        applied: bool = False,
    ) -> None:
        """Let calls of a service fail.

        Args:
            service: `d1` (each round trip is a call) or `queue` (each send or sendBatch).
            message: Production's text without what stands before it in every error of the service (`D1_ERROR: `,
                `Queue send failed: `): a D1Fault or a QueueFault of tests/edge/doubles.
            times: How many calls fail.
            after: How many calls pass first.
            on: What the call must contain: a part of a statement's SQL, or the queue's method.
            applied: Whether the call takes effect before it fails, as when the answer is lost on the way.
        """
        if service not in {"d1", "queue"}:
            raise RigError(f"the rig can't let {service!r} fail: only d1 and queue")
        fault = {"service": service, "message": str(message), "times": times, "after": after, "on": on}
        self._call("POST", "/faults", body={**fault, "applied": applied})

    def heal(self) -> None:
        """Take back every fault that `fail` has ordered."""
        self._call("DELETE", "/faults")

    def set_limits(self, **limits: int) -> None:
        """Set limits of host/invocations.mjs by name (`d1_statements=1000`); those not named get their default."""
        known = self._state()["limits"]
        unknown = set(limits) - set(known)
        if unknown:
            raise RigError(f"no such limit: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
        self._call("POST", "/limits", body=limits)

    def reset(self) -> None:
        """Heal, set limits and clock to what they were, and wait no more for what workerd has cancelled as hung."""
        self._call("POST", "/reset")

    def _running(self) -> NodeProcess:
        if self._process is None:
            raise RigError("the rig isn't running")
        return self._process

    def _invocations(self, since: int) -> list[Invocation]:
        return [Invocation.model_validate(told) for told in self._call("GET", "/invocations", {"since": str(since)})]

    def _idle(self, *, queues: bool) -> None:
        parameters = {"queues": str(int(queues)), "timeout_ms": str(int(IDLE_S * 1000))}
        answer = self._call("GET", "/idle", parameters)
        if not answer["idle"]:
            running = ", ".join(answer["unfinished"]) or "no invocation"
            raise RigError(
                f"still busy after {IDLE_S:.0f} s: {running} (workerd may have cancelled it as hung), messages on their"
                f" way by queue: {answer['waiting']}"
            )

    def _state(self) -> Mapping[str, Any]:
        return self._call("GET", "/state")

    def _call(self, method: str, path: str, parameters: Mapping[str, str] | None = None, body: Any = None) -> Any:
        self._running()
        answer = self._client.request(method, f"{self._ready['control']}{path}", params=parameters, json=body)
        answer.raise_for_status()
        return answer.json()
