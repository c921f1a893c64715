"""Vectorize and Workers AI behind HTTP, for the real Worker: workerd has neither without an account.

    python -m tests.edge.doubles.standin --port 8379 --persist vectors.db

`POST /vectorize/{method}` and `POST /ai/run` take `{"args": [...]}` and answer `{"result": ...}`, or an error's status
with `{"error": {"name", "message"}}`, which the caller throws. `GET /control` shows the state; `POST /control` changes
it (`Control`). Listens on 127.0.0.1 only, and prints `{"port": ..., "url": ...}` when it is ready.
"""

import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import click
import httpx
import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.edge.doubles.ai import AiEngine, AiFault
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.sdk import JsError, JsValue
from tests.edge.doubles.vectorize import FOREVER, VectorizeEngine, VectorizeFault
from tests.edge.doubles.vectorize_store import VectorizeStore

HOST: Final = "127.0.0.1"
DIMENSIONS: Final = 1024
"""Of the edge's default model."""
METADATA_INDEXES: Final = ("space=string", "kind=string", "type=string", "occurred_at=number", "state=number")
MODELS: Final = Path(__file__).parents[3] / ".tools" / "models"
START_S: Final = 20.0
"""How long a start may take."""
_PLAIN: Final[dict[str, Any]] = {"verify": False, "timeout": START_S}
"""For calls on this machine: they need no certificates, which take longer to read than the calls."""


class FaultOrder(BaseModel):
    """One order to fail: see faults.py."""

    model_config = ConfigDict(extra="forbid")

    service: Literal["vectorize", "ai"]
    kind: VectorizeFault | AiFault
    on: str | None = None
    times: Annotated[int, Field(ge=1)] | None = 1
    after: Annotated[int, Field(ge=0)] = 0
    applied: bool = False


class Control(BaseModel):
    """What can be changed at run time; what is left out stays as it is. Done in the order of the fields."""

    model_config = ConfigDict(extra="forbid")

    clear_faults: bool = False
    """Forget all orders and let go what hangs."""
    release: bool = False
    """Let go what hangs."""
    faults: list[FaultOrder] = []
    poison: str | None = None
    """A text that makes Workers AI fail; empty for none."""
    metadata_indexes: dict[str, Literal["string", "number", "boolean"]] = {}
    lag_s: Annotated[float, Field(ge=0)] | Literal["forever"] | None = None
    noise: Annotated[float, Field(ge=0, le=1)] | None = None
    missing: Annotated[float, Field(ge=0, le=1)] | None = None
    settle: bool = False
    """Make everything that was acknowledged visible now."""
    reset_times: bool = False


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")

    args: list[Any]


class Server:
    """The two engines as an ASGI application, with the calls it has had and the time they took."""

    def __init__(self, vectorize: VectorizeEngine, ai: AiEngine) -> None:
        self.vectorize = vectorize
        self.ai = ai
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._spent_ms: defaultdict[str, float] = defaultdict(float)
        self.app: Final = Starlette(
            routes=[
                Route("/vectorize/{method}", self._call_vectorize, methods=["POST"]),
                Route("/ai/run", self._call_ai, methods=["POST"]),
                Route("/control", self._show, methods=["GET"]),
                Route("/control", self._change, methods=["POST"]),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        yield
        self.vectorize.faults.clear()
        self.ai.faults.clear()
        self.vectorize.close()
        self.ai.close()

    async def _call_vectorize(self, request: Request) -> Response:
        method = request.path_params["method"]
        return await self._answer(request, f"vectorize.{method}", lambda args: self.vectorize.call(method, *args))

    async def _call_ai(self, request: Request) -> Response:
        return await self._answer(request, "ai.run", lambda args: self.ai.run(*args[:3]))

    async def _answer(
        self, request: Request, name: str, run: Callable[[list[JsValue]], Awaitable[JsValue]]
    ) -> Response:
        started = time.perf_counter()
        try:
            args = _Call.model_validate_json(await request.body()).args
            return JSONResponse({"result": await run(args)})
        except ValidationError as error:
            return _error("CallError", str(error), 400)
        except JsError as error:
            return _error(error.name, error.message, 500)
        finally:
            self._calls[name] += 1
            self._spent_ms[name] += (time.perf_counter() - started) * 1000

    async def _show(self, _request: Request) -> Response:
        return JSONResponse(self.state())

    async def _change(self, request: Request) -> Response:
        try:
            self.change(Control.model_validate_json(await request.body()))
        except ValueError as error:  # pydantic's is one too
            return _error("ControlError", str(error), 400)
        return JSONResponse(self.state())

    def state(self) -> dict[str, Any]:
        """Return settings, what waits, orders to fail, and for each kind of call their number and milliseconds."""
        vectorize = self.vectorize
        return {
            "vectorize": {
                "dimensions": vectorize.dimensions,
                "vectors": len(vectorize.ids()),
                "waiting": vectorize.waiting,
                "lag_s": "forever" if vectorize.lag_s == FOREVER else vectorize.lag_s,
                "noise": vectorize.noise,
                "missing": vectorize.missing,
                "metadata_indexes": vectorize.metadata_indexes,
                "faults": [asdict(order) for order in vectorize.faults.orders],
            },
            "ai": {"poison": self.ai.poison, "faults": [asdict(order) for order in self.ai.faults.orders]},
            "calls": dict(self._calls),
            "spent_ms": dict(self._spent_ms),
        }

    def change(self, wanted: Control) -> None:
        """Do what is wanted. Raises ValueError."""
        for faults in (self.vectorize.faults, self.ai.faults):
            if wanted.clear_faults:
                faults.clear()
            if wanted.release:
                faults.release()
        for order in wanted.faults:
            faults = self.vectorize.faults if order.service == "vectorize" else self.ai.faults
            faults.add(Fault(order.kind.value, order.on, order.times, order.after, order.applied))
        if wanted.poison is not None:
            self.ai.poison = wanted.poison or None
        for name, type_ in wanted.metadata_indexes.items():
            self.vectorize.create_metadata_index(name, type_)
        if wanted.lag_s is not None:
            self.vectorize.lag_s = FOREVER if wanted.lag_s == "forever" else wanted.lag_s
        self.vectorize.noise = self.vectorize.noise if wanted.noise is None else wanted.noise
        self.vectorize.missing = self.vectorize.missing if wanted.missing is None else wanted.missing
        if wanted.settle:
            self.vectorize.settle()
        if wanted.reset_times:
            self._calls.clear()
            self._spent_ms.clear()


class Standin:
    """The stand-in in a thread of this process, for fixtures: `with Standin(...) as standin: standin.url`.

    In a thread and not in a process of its own: it starts in a tenth of a second, and shares a model that is loaded.
    """

    def __init__(
        self,
        ai: AiEngine | None = None,
        *,
        dimensions: int = DIMENSIONS,
        persist: Path | None = None,
        lag_s: float = 0.0,
        port: int = 0,
        metadata_indexes: tuple[str, ...] = METADATA_INDEXES,
    ) -> None:
        self._make = lambda: make_server(ai or AiEngine.hashed(), dimensions, persist, lag_s, metadata_indexes)
        self._port = port
        self._thread: threading.Thread | None = None
        self._uvicorn: _Uvicorn | None = None
        self.server: Server | None = None
        """What serves, from the start on: tests look behind it while nobody calls."""
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; returns when it answers."""
        listening = listen(self._port)
        ready = threading.Event()
        self.url = url_of(listening)
        self.server = self._make()
        self._uvicorn = _Uvicorn(self.server, ready.set)
        self._thread = threading.Thread(target=self._uvicorn.run, args=([listening],), name="standin", daemon=True)
        self._thread.start()
        assert ready.wait(START_S), "the stand-in doesn't start"

    def stop(self) -> None:
        """Let go what hangs, and end."""
        assert self._uvicorn is not None and self._thread is not None, "the stand-in isn't running"
        self.control(clear_faults=True)
        self._uvicorn.should_exit = True
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "the stand-in doesn't end"

    def control(self, **wanted: object) -> dict[str, Any]:
        """Change settings (fields of Control) and return the state. Raises ValueError for what it refuses."""
        answer = httpx.post(f"{self.url}/control", json=wanted, **_PLAIN)
        if answer.status_code != 200:
            raise ValueError(answer.json()["error"]["message"])
        return answer.json()

    def state(self) -> dict[str, Any]:
        """Return the state."""
        return httpx.get(f"{self.url}/control", **_PLAIN).json()


def make_server(
    ai: AiEngine, dimensions: int, persist: Path | None, lag_s: float, metadata_indexes: tuple[str, ...]
) -> Server:
    """Return a server with the metadata indexes, each `name=type`; those that a file already has stay."""
    store = VectorizeStore(persist, dimensions) if persist else None
    vectorize = VectorizeEngine(dimensions, lag_s=lag_s, store=store)
    for index in metadata_indexes:
        name, _, type_ = index.partition("=")
        if name not in vectorize.metadata_indexes:
            vectorize.create_metadata_index(name, type_)
    return Server(vectorize, ai)


def listen(port: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's delay off only then: 40 ms a call.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    return listening


def url_of(listening: socket.socket) -> str:
    return f"http://{HOST}:{listening.getsockname()[1]}"


class _Uvicorn(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, server: Server, ready: Callable[[], None]) -> None:
        # What hangs on purpose must not keep the process: a second after the order to stop it is cut off.
        super().__init__(uvicorn.Config(server.app, log_level="warning", timeout_graceful_shutdown=1))
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _error(name: str, message: str, status: int) -> Response:
    return JSONResponse({"error": {"name": name, "message": message}}, status)


@click.command()
@click.option("--port", default=0, help="0 takes a free one.")
@click.option("--persist", type=click.Path(dir_okay=False, path_type=Path), help="A file that keeps the vectors.")
@click.option("--dimensions", default=DIMENSIONS, show_default=True)
@click.option("--lag-s", default=0.0, show_default=True, help="Until a change becomes visible.")
@click.option("--metadata-index", "metadata_indexes", multiple=True, default=METADATA_INDEXES, show_default=True)
@click.option("--models", type=click.Path(file_okay=False, path_type=Path), default=MODELS, help="The model's cache.")
@click.option("--hashed", is_flag=True, help="Vectors of hashed words instead of the model's: fast, no meaning.")
def main(
    port: int,
    persist: Path | None,
    dimensions: int,
    lag_s: float,
    metadata_indexes: tuple[str, ...],
    models: Path,
    hashed: bool,
) -> None:
    """Serve stand-ins for Vectorize and Workers AI on 127.0.0.1 until a signal comes."""
    ai = AiEngine.hashed() if hashed else AiEngine.local(models)
    try:
        server = make_server(ai, dimensions, persist, lag_s, metadata_indexes)
        listening = listen(port)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"Port {port} is taken: choose another, or 0 for a free one.") from error
    told = json.dumps({"port": listening.getsockname()[1], "url": url_of(listening)})
    _Uvicorn(server, lambda: click.echo(told)).run([listening])


if __name__ == "__main__":
    main()
