"""The Worker's entry: Cloudflare makes a `Default` for each event and calls its method.

What is imported and built here runs once, at deployment, and is kept as a snapshot; what a method imports is paid by
every new isolate. PRELOAD in wrangler.toml says where the one ends and the other begins. Nothing here may draw random
numbers, tell the time or reach out before the first event.
"""

# The runtime's SDK is there only inside a Worker, so nothing of it has types here.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import os
from functools import lru_cache, partial
from typing import Any, Final, cast

# Before pydantic is imported, which else looks through all packages for plugins: 40 ms of the start.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "true"

import js
import workers
from pyodide.ffi import to_js
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from workers import asgi

from shoal.schema.errors import NotConfigured, ShoalError
from shoal.worker import configuration
from shoal.worker.consuming import consume
from shoal.worker.edge import Edge, open_edge
from shoal.worker.logs import set_up_logs
from shoal.worker.runtime import Runtime
from shoal.worker.serving import Bounded, Faces, Front
from shoal.worker.upkeep import upkeep
from shoal.worker.version import VERSION

set_up_logs()


@lru_cache(maxsize=1)
def _rest_face() -> ASGIApp:
    from shoal.api.rest import rest_face

    return rest_face(version=VERSION)


@lru_cache(maxsize=1)
def _admin_face() -> ASGIApp:
    from shoal.api.oauth.admin import router
    from shoal.api.rest import rest_face

    return rest_face(version=VERSION, more=(router,))


@lru_cache(maxsize=1)
def _mcp_face() -> ASGIApp:
    from shoal.api.mcp import mcp_face

    return mcp_face(version=VERSION)


@lru_cache(maxsize=1)
def _oauth_face() -> ASGIApp:
    from shoal.api.oauth.face import oauth_face

    return oauth_face()


async def _rest(scope: Scope, receive: Receive, send: Send) -> None:
    await _rest_face()(scope, receive, send)


async def _admin(scope: Scope, receive: Receive, send: Send) -> None:
    await _admin_face()(scope, receive, send)


async def _mcp(scope: Scope, receive: Receive, send: Send) -> None:
    await _mcp_face()(scope, receive, send)


async def _sync(scope: Scope, receive: Receive, send: Send) -> None:
    from shoal.api.syncing import sync_face

    await sync_face(scope, receive, send)


async def _oauth(scope: Scope, receive: Receive, send: Send) -> None:
    await _oauth_face()(scope, receive, send)


def _oauth_present(error: ShoalError, request_id: str, scope: Scope) -> Response:
    from shoal.api.oauth.face import present

    return present(error, request_id, scope)


_FACES: Final = Faces(_rest, _admin, _mcp, _sync, _oauth, _oauth_present)
_RUNTIME: Final = Runtime(cast("Any", js), partial(to_js, dict_converter=js.Object.fromEntries))
_PRELOADED: Final = {"core": (), "rest": (_rest_face,), "all": (_rest_face, _mcp_face)}


def _preload(wanted: str) -> None:
    """Import what the variable PRELOAD names. Raises NotConfigured, which fails the deployment."""
    if wanted not in _PRELOADED:
        raise NotConfigured(f"The variable PRELOAD is {wanted!a}.", f"Use one of {', '.join(_PRELOADED)}.")
    for make in _PRELOADED[wanted]:
        make()


_preload(getattr(workers.env, "PRELOAD", "rest"))


class Default(workers.WorkerEntrypoint):
    """Serves requests, consumes the queues, and does what falls due."""

    async def fetch(self, request: workers.Request) -> Any:
        """Answer one HTTP request."""
        front = Front(_FACES, self.env, self.ctx.waitUntil, _RUNTIME)
        return await asgi.fetch(front, Bounded(request), self.env, self.ctx)

    async def queue(self, batch: Any, env: object = None, ctx: object = None) -> None:
        """Make the vectors of what was stored, or count what could not be delivered."""
        await consume(batch, self._edge())

    async def scheduled(self, controller: Any, env: object = None, ctx: object = None) -> None:
        """Do what falls due."""
        await upkeep(controller.cron, int(controller.scheduledTime), self._edge())

    def _edge(self) -> Edge:
        return open_edge(self.env, self.ctx.waitUntil, configuration.read(self.env))
