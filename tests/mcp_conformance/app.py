"""The suite's fixtures behind the product's own endpoint, shell and gate, served on this machine."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from starlette.types import Scope as HttpScope
from tests.mcp_conformance.fixtures import server

from shoal.api.gate import HostRule, OpenGate
from shoal.api.mcp import Endpoint
from shoal.api.profiles import DEFAULT_PROFILE
from shoal.api.shell import Shell
from shoal.core.caller import Caller
from shoal.core.service import Memory

HOST: Final = "127.0.0.1"
WAIT_S: Final = 15.0
"""How long the server may take to start or to end."""


async def _no_memory(_scope: HttpScope) -> Memory:
    # The fixtures keep nothing, so nothing is asked of it.
    return object()  # pyright: ignore[reportReturnType]


def fixtures_app() -> ASGIApp:
    """Return what `mcp_app` makes of a memory, made of the fixtures."""
    endpoint = Endpoint({DEFAULT_PROFILE: server()}, DEFAULT_PROFILE)
    return Shell(endpoint, _no_memory, OpenGate(Caller(client="conformance")), HostRule.loopback())


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an app on a free port while the context lasts; gives its origin."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind((HOST, 0))
        ready = threading.Event()
        running = _Uvicorn(app, ready.set)
        thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
        thread.start()
        assert ready.wait(WAIT_S), "the server doesn't start"
        yield f"http://{HOST}:{listening.getsockname()[1]}"
        running.should_exit = True
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the server doesn't end"


class _Uvicorn(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, app: ASGIApp, ready: Callable[[], None]) -> None:
        super().__init__(uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
