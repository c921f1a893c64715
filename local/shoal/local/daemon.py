"""The daemon: MCP and REST on one loopback port, over one database, with one embedder."""

import asyncio
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from shoal.api.context import one_memory
from shoal.api.gate import BearerGate, Gate, HostRule, OpenGate, token_hash
from shoal.api.rest import rest_app
from shoal.core.service import Memory
from shoal.local import version
from shoal.local.asgi import Front
from shoal.local.background import (
    Activity,
    embed,
    end_when_idle,
    end_when_replaced,
    keep_going,
    reword,
    upkeep,
)
from shoal.local.client import find_daemon
from shoal.local.home import DaemonRecord, StartedBy, remove_record, write_record
from shoal.local.lock import hold_daemon_lock
from shoal.local.logs import set_up_logs
from shoal.local.runtime import Runtime, local_caller, ontology_of, open_runtime
from shoal.local.seed import plant, read_seed
from shoal.local.settings import Loaded, is_loopback
from shoal.local.sync.control import SyncControl
from shoal.local.sync.syncer import Signals, Syncer, syncer_of
from shoal.schema.errors import PortInUse

log = logging.getLogger("shoal.daemon")

DRAIN_S: Final = 5
"""How long requests may still run once the daemon is told to end; event streams are cut then."""
BACKLOG: Final = 128
"""Connections that wait to be accepted."""
MCP_IMPORT_AFTER_S: Final = 0.3
"""Pause after the start, so that the first health check isn't slowed by the import."""


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals, which would end the process before the database is closed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell who waits for it."""
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield


def serve(loaded: Loaded, started_by: StartedBy, ready: Callable[[DaemonRecord], None]) -> None:
    """Serve until told to end; `ready` is called once it answers. Raises DaemonError, StorageError."""
    loaded.home.ensure()

    def running() -> str | None:
        record = find_daemon(loaded.home)
        return record.url if record else None

    with hold_daemon_lock(loaded.home.daemon_lock, running):
        set_up_logs(loaded.home, loaded.settings.log_level, to_stderr=started_by == "person")
        for warning in loaded.warnings:
            log.warning("settings: %s", warning)
        asyncio.run(_Daemon(loaded, started_by).run(ready))


def bound_address(loaded: Loaded) -> str:
    """Return the address to listen on. `localhost` is not looked up: a hosts file may send it elsewhere."""
    return "127.0.0.1" if loaded.settings.host == "localhost" else loaded.settings.host


def listen(host: str, port: int, chosen: bool) -> socket.socket:
    """Return a listening socket; another free port where nobody chose this one. Raises PortInUse."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reason = ""
    for candidate in (port,) if chosen else (port, 0):
        # With the protocol named, asyncio turns Nagle off; else answers wait 40 ms for the client's delayed ACK.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
        else:
            listener.setblocking(False)
            return listener
    raise PortInUse(
        f"Port {port} of {host} can't be used: {reason}.",
        "Choose another with --port or SHOAL_PORT; without one, a free port is taken.",
        port=port,
    )


class _Daemon:
    def __init__(self, loaded: Loaded, started_by: StartedBy) -> None:
        self._loaded = loaded
        self._started_by: StartedBy = started_by
        self._activity = Activity()
        self._signals = Signals()
        self._stopping = asyncio.Event()

    async def run(self, ready: Callable[[DaemonRecord], None]) -> None:
        """Serve until a signal, a stop request or idleness."""
        listener = listen(
            bound_address(self._loaded),
            self._loaded.settings.port,
            self._loaded.port_is_chosen,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not loop.add_signal_handler, which Windows doesn't have.
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._stopping.set))
        with listener:
            async with open_runtime(
                self._loaded, announce=self._signals.announce, exchanged=self._signals.exchanged
            ) as runtime:
                record = self._record(listener)
                await self._plant(runtime)
                await self._serve(listener, runtime, record, ready)
        log.info("ended")

    async def _serve(
        self,
        listener: socket.socket,
        runtime: Runtime,
        record: DaemonRecord,
        ready: Callable[[DaemonRecord], None],
    ) -> None:
        gate, hosts = gate_of(self._loaded, record.token), hosts_of(self._loaded)
        mcp = _LazyMcp(partial(_build_mcp, runtime.memory, gate, hosts, record.version))
        rest = rest_app(one_memory(runtime.memory), gate, hosts, version=record.version)
        syncer = syncer_of(runtime, self._signals, self._activity)
        control = SyncControl(runtime.memory.context, syncer)
        server = self._server(rest, mcp, control, record)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stopping = asyncio.create_task(self._stopping.wait())
        jobs: list[asyncio.Task[None]] = []
        try:
            await server.listening.wait()
            write_record(self._loaded.home, record)
            jobs = self._jobs(runtime, mcp, syncer)
            log.info("shoal %s serves %s on %s", record.version, record.database, record.url)
            ready(record)
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            log.info("ending: finishing requests")
        finally:
            remove_record(self._loaded.home, record.pid)
            for task in (stopping, *jobs):
                task.cancel()
            server.should_exit = True
            await asyncio.gather(serving, *jobs, return_exceptions=True)
            # After the last request, whose writes are to go too.
            await control.aclose()
            await syncer.drain()
        serving.result()

    def _record(self, listener: socket.socket) -> DaemonRecord:
        host, port = str(listener.getsockname()[0]), int(listener.getsockname()[1])
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        return DaemonRecord(
            pid=os.getpid(),
            host=reachable,
            port=port,
            token=secrets.token_urlsafe(32),
            version=version.installed(),
            database=str(self._loaded.database),
            started_by=self._started_by,
        )

    def _server(self, rest: ASGIApp, mcp: "_LazyMcp", sync: SyncControl, record: DaemonRecord) -> _Server:
        about = {name: value for name, value in asdict(record).items() if name != "token"}
        front = Front(rest, mcp.app, self._activity, record.token, about, self._stopping.set, sync)
        return _Server(
            uvicorn.Config(
                front,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )

    def _jobs(self, runtime: Runtime, mcp: "_LazyMcp", syncer: Syncer) -> list[asyncio.Task[None]]:
        memory, activity = runtime.memory, self._activity
        jobs: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "mcp": mcp.warm,
            "upkeep": partial(upkeep, memory),
            "words": partial(reword, memory, activity),
            "sync": syncer.run,
            "file": partial(end_when_replaced, runtime.database, self._stopping.set),
        }
        if runtime.embedder is not None:
            jobs["embed"] = partial(embed, memory, activity, runtime.drop_old_vectors)
        if self._started_by == "shim":
            idle_s = self._loaded.settings.idle_minutes * 60
            jobs["idle"] = partial(end_when_idle, memory, activity, idle_s, self._stopping.set)
        return [asyncio.create_task(keep_going(name, job), name=name) for name, job in jobs.items()]

    async def _plant(self, runtime: Runtime) -> None:
        if not self._loaded.settings.seed:
            return
        seed = read_seed(self._loaded.settings.seed, ontology_of(self._loaded))
        caller = local_caller(self._loaded, "seed", clamps=False)
        counts = await plant(seed, lambda asked: runtime.memory.store(asked, caller), self._loaded.settings.space)
        for warning in seed.warnings:
            log.warning("seed: %s", warning)
        log.info("seed: %s", ", ".join(f"{status} {count}" for status, count in counts.items()) or "nothing")


class _LazyMcp:
    """MCP's app, imported in a thread: the SDK takes over a second and would hold up every request."""

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._app: ASGIApp | None = None
        self._lock = asyncio.Lock()

    async def app(self) -> ASGIApp:
        """Return the app; the first callers wait for it together."""
        async with self._lock:
            if self._app is None:
                self._app = await asyncio.to_thread(self._build)
            return self._app

    async def warm(self) -> None:
        """Import it soon after the start, so that hardly any client waits."""
        await asyncio.sleep(MCP_IMPORT_AFTER_S)
        await self.app()


def _build_mcp(memory: Memory, gate: Gate, hosts: HostRule, release: str) -> ASGIApp:
    from shoal.api.mcp import mcp_app

    return mcp_app(one_memory(memory), gate, hosts, version=release)


def gate_of(loaded: Loaded, own_token: str) -> Gate:
    """Return who may call: with a token in the settings its bearer and the holder of daemon.json, else anyone here."""
    token = loaded.settings.token
    if token is None:
        return OpenGate(local_caller(loaded, "local", clamps=True))
    return BearerGate(
        {
            token_hash(token.get_secret_value()): local_caller(loaded, "token", clamps=True),
            token_hash(own_token): local_caller(loaded, "local", clamps=True),
        }
    )


def hosts_of(loaded: Loaded) -> HostRule:
    """Return the Host and Origin headers that are served: loopback, the address listened on, and those allowed."""
    settings = loaded.settings
    rule = HostRule.loopback(frozenset(origin.lower() for origin in settings.allowed_origins))
    named = (settings.host, *settings.allowed_hosts)
    if is_loopback(settings.host) and not settings.allowed_hosts:
        return rule
    return replace(rule, hosts=rule.hosts | {f"{_in_header(name)}:*" for name in named})


def _in_header(name: str) -> str:
    """Return a name or an address as a Host header has it: IPv6 in brackets."""
    bare = name.lower().strip("[]")
    return f"[{bare}]" if ":" in bare else bare
