"""A Worker of their own for the benchmarks of the edge: the real one in the offline rig, with stand-ins beside it.

It is staged into a temporary folder, so that what is measured is the checkout as it is, and its data are gone
afterwards. Its configuration is wrangler.toml's but for the rate limit, which a benchmark would meet.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import Standin
from tests.edge.rig.records import Invocation
from tests.edge.rig.rig import Rig
from tests.worker.tools import wrangler
from worker.stage import stage

from bench.harness import Client

ROOT: Final = Path(__file__).parents[1]
OWNER_KEY: Final = "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43U"
PACKAGES: Final = ROOT / "python_modules"
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
CONFIGURATION: Final = "wrangler.toml"
_LIMITED: Final = "limit = 600,"
_UNLIMITED: Final = "limit = 100000000,"
_EMPTY_ENTRY: Final = """from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response("")
"""
"""What any Python Worker starts with: the interpreter and the runtime's SDK."""


def lay_out(folder: Path, *, empty: bool = False) -> int:
    """Make a folder that the rig can run the Worker from, and return the bytes of its own sources.

    `empty` puts in its place a Worker that imports nothing, with the same packages beside it.
    """
    configuration = (ROOT / CONFIGURATION).read_text(encoding="utf-8")
    if _LIMITED not in configuration:
        raise RuntimeError(f"{CONFIGURATION} no longer says `{_LIMITED}`: the benchmark would be held up by it")
    (folder / CONFIGURATION).write_text(configuration.replace(_LIMITED, _UNLIMITED), encoding="utf-8")
    for name in ("schema", "web"):
        (folder / name).symlink_to(ROOT / name)
    target = folder / "build" / "worker"
    target.mkdir(parents=True)
    if not empty:
        return stage(ROOT, target).size_bytes
    (target / "entry.py").write_text(_EMPTY_ENTRY, encoding="utf-8")
    return len(_EMPTY_ENTRY)


class EdgeWorker:
    """The Worker with its stand-ins, ended with the block.

    `rig` runs it, `client` sends the token of a device; `ready_s` is how long the start took, `own_bytes` the size of
    our sources.
    Workers AI hashes words instead of understanding them: what it takes is left out of every figure, so only the number
    and the size of its vectors count, which are those of the model.
    """

    def __init__(self, *, empty: bool = False, preload: str | None = None) -> None:
        """Describe it: `preload` stands for wrangler.toml's PRELOAD."""
        self._empty = empty
        self._variables = {"OWNER_KEY_SHA256": hashlib.sha256(OWNER_KEY.encode()).hexdigest()}
        if preload is not None:
            self._variables["PRELOAD"] = preload

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-edge-")))
            self.own_bytes = lay_out(folder, empty=self._empty)
            self.standin = stack.enter_context(Standin(AiEngine.hashed()))
            rig = Rig(
                folder,
                folder / "state",
                python_modules=PACKAGES,
                variables=self._variables,
                standin=self.standin.url,
            )
            began = time.perf_counter()
            self.rig = stack.enter_context(rig)
            self.ready_s = time.perf_counter() - began
            port = int(self.rig.url.rpartition(":")[2])
            self.client = Client(port, None if self._empty else device_token(port))
            self._running = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def settle(self) -> None:
        """Return when the queue has run dry and the index shows what it took."""
        self.rig.drain()
        self.standin.control(settle=True)
        self.client.rest()

    def invocations(self, action: Callable[[], object]) -> list[Invocation]:
        """Return what an action has set off, the queue's batches included, oldest first."""
        since = self.rig.mark()
        action()
        self.settle()
        return self.rig.invocations(since)

    def cpu_s(self) -> float:
        """Return the CPU seconds of workerd until now, D1 included (Linux only)."""
        return sum(_cpu_s(pid) for pid in self.rig.pids())

    def others_cpu_s(self) -> float:
        """Return the CPU seconds of all programs but this one, workerd, and the Node that runs it (Linux only)."""
        ours = {*self.rig.pids(), *(int(_stat(pid)[1]) for pid in self.rig.pids())}
        return busy_s() - sum(_cpu_s(pid) for pid in ours) - time.process_time()


def device_token(port: int) -> str:
    """Let the owner make a token, as clients have one: the owner's key would spare each request a query."""
    owner = Client(port, OWNER_KEY)
    token = {"name": "benchmark", "spaces": {"*": ["read", "write", "admin"]}}
    try:
        return owner.call("POST", "/api/v1/admin/tokens", token)["token"]
    finally:
        owner.rest()


def busy_s() -> float:
    """Return the CPU seconds that all programs of this machine have had (Linux only)."""
    counts = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, counts[:7])
    return (user + nice + system + interrupts + soft_interrupts) / TICKS_PER_S


def _cpu_s(pid: int) -> float:
    return sum(map(int, _stat(pid)[11:13])) / TICKS_PER_S


def _stat(pid: int) -> list[str]:
    """Return what Linux says of a process after its name: its state, its parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()


def uploaded() -> int:
    """Return the bytes of vendored packages that a deployment uploads, by wrangler's dry run."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-edge-") as folder:
        bundle = Path(folder, "bundle")
        wrangler(Path(folder, "home"), "deploy", "--dry-run", "--outdir", str(bundle))
        return sum(path.stat().st_size for path in (bundle / PACKAGES.name).rglob("*") if path.is_file())
