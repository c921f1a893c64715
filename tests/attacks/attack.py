"""What an attacker has, and what must hold of every answer: nothing that is hidden comes out, nothing breaks.

The memory has two spaces. HIDDEN is never the attacker's; what lies in it carries MARKER wherever text can stand. SHELF
is what the attacker was let into, as far as a test says.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx
from tests.edge.edge import OWNER_KEY, PLAIN, File
from tests.edge.oauth import REDIRECT, Flow
from tests.edge.rig.rig import Rig
from tests.outside.wires import headers, message

MARKER: Final = "quillwort9c4e"
HIDDEN: Final = "attacked-vault"
SHELF: Final = "attacked-shelf"
LEGACY: Final = "2025-06-18"
AT_A_TIME: Final = 4
"""How many requests are under way at once where their order doesn't matter."""
Asked = TypeVar("Asked")
Told = TypeVar("Told")
_ADDRESSES: Final = itertools.count(1)
"""Each attacker comes from an address of its own, so that none meets the limits that another has used up."""


@dataclass(slots=True)
class Attack:
    """The Worker that is attacked."""

    rig: Rig
    database: File
    hidden: list[str] = field(default_factory=list[str])
    """Ids in HIDDEN: one that is there, one with a history, one that is archived, one in the trash."""
    shown: list[str] = field(default_factory=list[str])
    """Ids in SHELF."""
    open: ExitStack = field(default_factory=ExitStack)
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    """Made before, by what they may do where."""
    clients: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of apps that were registered before, by their redirect."""
    session: dict[str, str] = field(default_factory=dict[str, str])
    """The cookies of a browser in which the owner signed in before."""
    flooding: bool = False
    """Whether 503 is an answer: it is what floods get."""

    @property
    def url(self) -> str:
        """Its address."""
        return self.rig.url

    def owner(self) -> httpx.Client:
        """Return what the owner calls with, who may see everything."""
        said = {"authorization": f"Bearer {OWNER_KEY}"}
        return self.open.enter_context(httpx.Client(base_url=self.url, headers=said, **PLAIN))

    def client(self, token: str | None = None, **more: str) -> httpx.Client:
        """Return what an attacker calls with; its answers are judged."""
        said = {} if token is None else {"authorization": f"Bearer {token}"}
        hooks = {"response": [self.judge]}
        return self.open.enter_context(
            httpx.Client(base_url=self.url, headers={**said, **more}, event_hooks=hooks, **PLAIN)
        )

    def flow(
        self, address: str = "", *, registered: bool = False, signed_in: bool = False, redirect_uri: str = REDIRECT
    ) -> Flow:
        """Return an app with a browser; its answers are judged.

        Args:
            address: Where both come from; by default from where nobody has come.
            registered: Whether the app is the one of this redirect that is registered once for all who don't change it.
            signed_in: Whether the owner is signed in, in the one session for all who don't end it.
            redirect_uri: The app's redirect.
        """
        flow = self.open.enter_context(
            Flow(self.url, OWNER_KEY, address=address or new_address(), redirect_uri=redirect_uri)
        )
        for http in (flow.app, flow.browser.http):
            http.event_hooks = {"response": [self.judge]}
        if registered:
            flow.client_id = self.clients.get(redirect_uri, "") or self._registered(redirect_uri)
        if signed_in:
            flow.browser.cookies = dict(self.session or self._signed_in())
        return flow

    def token(self, spaces: Mapping[str, Sequence[str]]) -> str:
        """Return a token that the owner has made: the same for the same."""
        body = {"name": "an attacker", "spaces": {space: list(deeds) for space, deeds in spaces.items()}}
        known = json.dumps(body)
        if known not in self.tokens:
            answer = self.owner().post("/api/v1/admin/tokens", json=body).raise_for_status()
            self.tokens[known] = answer.json()["token"]
        return self.tokens[known]

    def raw(self, method: str, target: str, token: str | None = None, **options: Any) -> httpx.Response:
        """Send a request whose path goes over the wire as it is written."""
        http = self.client(token)
        url = http.base_url.copy_with(raw_path=target.encode())
        return http.request(method, url, **options)

    def count(self, table: str, where: str = "1") -> int:
        """Return how many rows a table has."""
        ((number,),) = self.database.rows(f"select count(*) from {table} where {where}")
        return number

    def alive(self) -> int:
        """Return how many apps are let in."""
        return self.count("oauth_grant", "kind = 'app' and activated_at is not null and revoked_at is null")

    def _registered(self, redirect_uri: str) -> str:
        flow = self.flow(redirect_uri=redirect_uri)
        assert flow.register().status_code == 201
        self.clients[redirect_uri] = flow.client_id
        return flow.client_id

    def _signed_in(self) -> dict[str, str]:
        flow = self.flow()
        assert flow.sign_in().status_code == 303
        self.session = dict(flow.browser.cookies)
        return self.session

    def judge(self, answer: httpx.Response) -> None:
        """Refuse an answer that nobody may get."""
        answer.read()
        what, told = f"{answer.request.method} {answer.request.url}", answer.text + str(answer.headers)
        assert answer.status_code < 500 or (self.flooding and answer.status_code == 503), f"{what}: {told}"
        assert MARKER not in told, f"{what} tells what is hidden: {told}"
        assert OWNER_KEY not in told, f"{what} tells the owner's key: {told}"

    @contextmanager
    def asking_nothing(self) -> Iterator[None]:
        """Hold what is done inside to no statement of the database."""
        since = self.rig.mark()
        yield
        assert sum(run.d1.statements for run in self.rig.invocations(since)) == 0

    @contextmanager
    def letting_nobody_in(self) -> Iterator[None]:
        """Hold what is done inside to neither a grant nor a code."""
        before = self.count("oauth_grant"), self.count("oauth_code")
        yield
        assert (self.count("oauth_grant"), self.count("oauth_code")) == before


def each(ask: Callable[[Asked], Told], asked: Iterable[Asked]) -> list[Told]:
    """Ask several things that don't depend on each other, some at a time, and return what is told, in order."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(ask, asked))


def new_address() -> str:
    """Return an address that nobody has had (RFC 2544's, for tests)."""
    number = next(_ADDRESSES)
    return f"198.18.{number // 250}.{number % 250 + 1}"


def says(http: httpx.Client, method: str, version: str = LEGACY, asked: str = "", /, **params: Any) -> httpx.Response:
    """Send a message of MCP."""
    said = headers(version, method, params)
    return http.post(f"/mcp{asked}", json=message(version, method, params, 1), headers=said)


def calls(
    http: httpx.Client, tool: str, version: str = LEGACY, profile: str = "", /, **arguments: Any
) -> httpx.Response:
    """Call a tool of a profile, `classic` or the usual one."""
    asked = f"?profile={profile}" if profile else ""
    return says(http, "tools/call", version, asked, name=tool, arguments=arguments)


def refused(answer: httpx.Response, error: str, status: int = 400) -> None:
    """Require that an endpoint of OAuth has refused, and has handed out nothing."""
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    assert not answer.json().keys() & {"access_token", "refresh_token", "client_id"}
    assert "location" not in answer.headers


def page_without_a_way_on(answer: httpx.Response, status: int = 400) -> None:
    """Require that a person was told on a page, and sent nowhere."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert "location" not in answer.headers
    assert "http-equiv" not in answer.text.lower()


def plant(attack: Attack) -> None:
    """Put memories into both spaces."""
    with httpx.Client(base_url=f"{attack.url}/api/v1", headers=attack.owner().headers, **PLAIN) as http:
        for number in range(4):
            marked = {"tags": [MARKER], "entities": [MARKER], "metadata": {MARKER: MARKER}, "source": MARKER}
            hidden = {"content": f"The {MARKER} opens door {number}", "space": HIDDEN, **marked}
            attack.hidden.append(_stored(http, hidden))
            attack.shown.append(_stored(http, {"content": f"The heron waits at pier {number}", "space": SHELF}))
        told = {"content": f"The {MARKER} opens no door", "space": HIDDEN}
        http.patch(f"/memories/{attack.hidden[1]}", json=told).raise_for_status()
        http.patch(f"/memories/{attack.hidden[2]}", json={"archived": True}).raise_for_status()
        gone = {"ids": [attack.hidden[3]], "confirm": True, "reason": f"{MARKER} is over"}
        http.post("/memories/delete", json=gone).raise_for_status()


def _stored(http: httpx.Client, memory: dict[str, Any]) -> str:
    answer = http.post("/memories", json=memory)
    assert answer.is_success, answer.text
    return answer.json()["id"]
