"""The Node process that runs Miniflare, which runs workerd: started, listened to, and surely ended."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tests.edge.rig.tools import RigError, node

SERVE: Final = Path(__file__).with_name("node") / "serve.mjs"
READY_S: Final = 90.0
"""How long a start may take: a few seconds, more on a machine that is busy with other things."""
END_S: Final = 15.0
"""How long the processes may take to end once they are told to."""
KILLED_S: Final = 15.0
"""How long killed processes may take to be gone."""
LOG_LINES: Final = 10_000
"""How many lines of the log are kept."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that the Worker or what runs it has written."""

    source: str
    """`worker` (its print and console), `miniflare`, `node`, or `stderr`."""
    level: str
    message: str


class NodeProcess:
    """Runs node/serve.mjs in a process group of its own, so that nothing it starts can be left behind."""

    def __init__(self, options: Mapping[str, Any], on_log: Callable[[LogLine], None] | None = None) -> None:
        self._on_log = on_log
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._told: dict[str, Any] = {}
        self._change = threading.Condition()
        self._process = subprocess.Popen(
            [str(node()), str(SERVE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, "node"), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, "stderr"), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        with contextlib.suppress(BrokenPipeError):  # It ended at once; `ready` tells why.
            self._process.stdin.write(json.dumps(options).encode() + b"\n")
            # Left open: Node ends itself when it closes, so that a killed parent leaves nothing behind.
            self._process.stdin.flush()

    def ready(self) -> Mapping[str, Any]:
        """Wait until the Worker answers, and return what the process tells about itself.

        Returns:
            `url` of the Worker, `control` of the rig's own door, `pids` that Node has started, `cpu_s` of workerd.

        Raises:
            RigError: it didn't start; the message holds the log.
        """
        deadline = time.monotonic() + READY_S
        with self._change:
            while "ready" not in self._told and "failed" not in self._told and self._process.poll() is None:
                # The end of the process is no event here: the wait is cut short to see it.
                self._change.wait(min(0.5, deadline - time.monotonic()))
                if time.monotonic() > deadline:
                    break
            ready = self._told.get("ready")
        if ready is None:
            self.stop()  # What was said last is in the log then.
            raise RigError(f"The Worker didn't start: {self._failure()}\n{self.log_text()}")
        return ready

    def _failure(self) -> str:
        if "failed" in self._told:
            return self._told["failed"]["message"]
        code = self._process.returncode
        return f"Node ended with exit code {code}" if code > 0 else f"not ready within {READY_S} s"

    def log(self) -> list[LogLine]:
        """Return the lines written until now."""
        with self._change:
            return list(self._lines)

    def log_text(self) -> str:
        """Return the log for a person."""
        return "\n".join(f"[{line.source} {line.level}] {line.message}" for line in self.log())

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """End the process and everything that it has started; return when all are gone. RigError when some stay."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        if group_lives(self._process.pid):
            self._kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(END_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                assert stream is not None
                stream.close()

    def _kill(self) -> None:
        """End what Node has left behind: workerd, when Node itself was killed or hangs. RigError when it stays."""
        deadline = time.monotonic() + KILLED_S
        while group_lives(self._process.pid):
            if time.monotonic() > deadline:
                raise RigError(f"processes of the group {self._process.pid} don't end though they were killed")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # Node is our child, and gone once we have asked for it; the end of the others is no event to us.
            self._process.poll()
            time.sleep(0.01)

    def _read(self, stream: IO[bytes], source: str) -> None:
        for raw in stream:
            line = self._take(raw.decode(errors="replace").rstrip("\n"), source)
            if line is not None and self._on_log is not None:
                self._on_log(line)

    def _take(self, raw: str, source: str) -> LogLine | None:
        try:
            told = json.loads(raw)
            event = told["event"]
        except (ValueError, TypeError, KeyError):
            # Not ours: something printed past the protocol.
            told, event = {"source": source, "level": "info", "message": raw}, "log"
        with self._change:
            if event != "log":
                self._told[event] = told
                self._change.notify_all()
                return None
            line = LogLine(told["source"], told["level"], told["message"])
            self._lines.append(line)
            return line


def environment() -> dict[str, str]:
    """Return the environment of the process: wrangler sends no statistics, asks nothing and reads no .env."""
    own = {"WRANGLER_SEND_METRICS": "false", "CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV": "false"}
    return {**os.environ, **own, "CI": "1", "NO_COLOR": "1"}


def group_lives(group: int) -> bool:
    """Whether a process group has a process left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
