"""A server to fuzz: its memory has a space that the fuzzer's token can't read, and a marker lies in all of it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import apsw
import httpx
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope
from tests.edge.edge import ORIGIN, OWNER_KEY, PLAIN, File
from tests.edge.oauth import Flow, form_of
from tests.edge.rig.rig import Rig
from tests.mcp_conformance.app import served

from shoal.api.gate import BearerGate, HostRule, token_hash
from shoal.api.mcp import mcp_app
from shoal.api.rest import rest_app
from shoal.core.caller import Caller, Scope
from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.service import Memory, open_memory

MARKER: Final = "zebrafinch7f3a"
"""In no request that the fuzzers send, so an answer that has it has read it."""
HIDDEN: Final = "vault"
"""The space that the token can't read."""
OPEN: Final = "main"
"""The space that it can read and change, which is also the one meant where none is named."""
OWNER: Final = "owner-of-the-fuzzed-memory"
LIMITED: Final = "token-of-the-fuzzer"
_PLANTED: Final = 6


@dataclass(frozen=True, slots=True)
class App:
    """A registered app, and a browser in which the owner is asked about it."""

    client_id: str
    redirect_uri: str
    cookie: str
    """Of the owner's session."""
    consent: Mapping[str, str]
    """The form that lets the app in."""


@dataclass(slots=True)
class Place:
    """What a fuzzer must know."""

    url: str
    token: str
    """Reads, writes and administers OPEN, and nothing else."""
    owner: str
    """The token of whoever may do everything; only for planting."""
    origin: str
    """Of web pages that it lets in."""
    hidden: list[str] = field(default_factory=list[str])
    """Ids of memories in HIDDEN."""
    shown: list[str] = field(default_factory=list[str])
    """Ids of memories in OPEN."""
    forget_counts: Callable[[], object] = lambda: None
    """Lets the server forget how many requests it has had: else it soon refuses all alike."""
    counted: str = ""
    """The SQLite file of those counts."""
    app: App | None = None
    """What an authorization server knows of the fuzzer; None where the server is none."""

    def plant(self) -> None:
        """Put memories into both spaces; what lies in HIDDEN carries the marker wherever text can stand."""
        headers = {"authorization": f"Bearer {self.owner}"}
        with httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, verify=False) as http:
            for n in range(_PLANTED):
                self.hidden.append(_stored(http, _secret(n)))
                self.shown.append(_stored(http, {"content": f"The coffee machine number {n} is free", "space": OPEN}))
            # Its history, its trash and its archive hold the marker too.
            told = {"content": f"The {MARKER} coffee moved", "space": HIDDEN}
            http.patch(f"/memories/{self.hidden[0]}", json=told).raise_for_status()
            http.patch(f"/memories/{self.hidden[1]}", json={"archived": True}).raise_for_status()
            gone = {"ids": [self.hidden[2]], "confirm": True, "reason": f"{MARKER} is over"}
            http.post("/memories/delete", json=gone).raise_for_status()


def _secret(n: int) -> dict[str, Any]:
    return {
        "content": f"The {MARKER} coffee machine number {n} belongs to the vault",
        "space": HIDDEN,
        "tags": [MARKER, "coffee"],
        "entities": [MARKER],
        "metadata": {MARKER: MARKER},
        "source": MARKER,
        "conversation_id": MARKER,
        "position": n,
    }


def _stored(http: httpx.Client, memory: dict[str, Any]) -> str:
    answer = http.post("/memories", json=memory)
    assert answer.is_success, answer.text
    return answer.json()["id"]


@contextmanager
def laptop() -> Iterator[Place]:
    """Serve both faces from this process, on the fakes."""
    with served(_faces()) as url:
        place = Place(url, LIMITED, OWNER, ORIGIN)
        place.plant()
        yield place


def edge(rig: Rig, counted: File, origin: str) -> Place:
    """Return the Worker as a place. What an earlier test has planted stays."""
    spaces = {OPEN: ["read", "write", "admin"]}
    headers = {"authorization": f"Bearer {OWNER_KEY}"}
    wanted = {"name": "the fuzzer", "spaces": spaces}
    answer = httpx.post(f"{rig.url}/api/v1/admin/tokens", json=wanted, headers=headers, **PLAIN)
    assert answer.is_success, answer.text

    def forget_counts() -> None:
        counted.rows("delete from _mf_ratelimit_buckets")

    return Place(
        rig.url,
        answer.json()["token"],
        OWNER_KEY,
        origin,
        forget_counts=forget_counts,
        counted=counted.connection.filename,
        app=_app(rig, origin),
    )


def _app(rig: Rig, origin: str) -> App:
    with Flow(rig.url, OWNER_KEY, redirect_uri=f"{origin}/") as flow:
        assert flow.register().is_success
        consent = form_of(flow.consent_page(), "/consent")
        cookie = "; ".join(f"{name}={value}" for name, value in flow.browser.cookies.items())
        return App(flow.client_id, flow.redirect_uri, cookie, {**consent.fields, "decision": "allow"})


def _faces() -> ASGIApp:
    opened: list[Memory] = []

    async def memory(_scope: HttpScope) -> Memory:
        # In the loop that will use it.
        if not opened:
            database = FakeDatabase(apsw.Connection(":memory:"))
            embedder, index = FakeEmbedder(), FakeVectorIndex(database)
            opened.append(
                await open_memory(
                    database, index, embedder, clock=lambda: time.time_ns() // 1_000_000, new_device="0a0b0c0d"
                )
            )
        return opened[0]

    scopes = frozenset({Scope.READ, Scope.WRITE, Scope.ADMIN})
    limited = Caller(scopes=scopes, spaces=(OPEN,), client="fuzzer")
    gate = BearerGate({token_hash(OWNER): Caller(client="owner"), token_hash(LIMITED): limited})
    hosts = HostRule.loopback(frozenset({ORIGIN}))
    rest = rest_app(memory, gate, hosts, version="1")
    mcp = mcp_app(memory, gate, hosts, version="1")

    async def app(scope: HttpScope, receive: Receive, send: Send) -> None:
        face = mcp if scope["path"].rstrip("/") == "/mcp" else rest
        await face(scope, receive, send)

    return app
