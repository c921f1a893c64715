"""Linking a database to an edge, by a browser or a device token, to another edge, and not at all any more."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from tests.local.sync.conftest import OwnKeyring
from tests.local.sync.owner import EVERYTHING, browser, decides, device_token
from tests.local.sync.rig import Asked, LocalEdge

from shoal.core import replication
from shoal.core.caller import Caller
from shoal.core.protocols import Statement
from shoal.local.home import Home
from shoal.local.runtime import clock_ms, open_database, open_runtime
from shoal.local.settings import load
from shoal.local.sync import linking, vault
from shoal.local.sync.callback import NotForUs
from shoal.local.sync.files import SyncFiles, held
from shoal.schema.errors import (
    EdgeBusy,
    EdgeUnreachable,
    LinkBroken,
    NotAllowed,
    NotFound,
    NotLinked,
    ProtocolMismatch,
    ShoalError,
    SyncError,
)
from shoal.schema.models import StoreRequest

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
SERVER = "/.well-known/oauth-authorization-server"


ABOUT = {"resource": "http://127.0.0.1/mcp", "authorization_servers": ["http://127.0.0.1"]}


@pytest.fixture(autouse=True)
def a_quick_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes ten minutes here."""
    monkeypatch.setattr(linking, "LOGIN_S", 10.0)


async def meta(home: Home) -> dict[str, Any]:
    async with open_database(load(home)) as database:
        return {row["k"]: row["v"] for row in await database.query("select k, v from meta")}


async def waiting(home: Home) -> int:
    async with open_database(load(home)) as database:
        return (await replication.info(database, clock_ms())).queue


def instead(path: str, answer: Response) -> Callable[[Asked], Response | None]:
    """Return what answers at a path in the edge's place."""
    return lambda asked: answer if asked.path == path else None


def alive(edge: LocalEdge) -> int:
    """Return how many grants let somebody in."""
    sql = "select count(*) as n from oauth_grant where activated_at is not null and revoked_at is null"
    return asyncio.run(edge.authority.database.query(sql))[0]["n"]  # pyright: ignore[reportReturnType]


# By the browser


async def test_the_owner_lets_a_device_in_by_the_browser_and_it_is_kept_and_noted(
    edge: LocalEdge, home: Home, files: SyncFiles, own_keyring: OwnKeyring
):
    asked: list[str] = []

    def present(address: str, paste: Any) -> None:
        asked.append(address)
        browser(edge)(address, paste)

    entry = await linking.sign_in(edge.url, "Ada's laptop", present)
    assert vault.read(files) is None
    assert entry.status.spaces == entry.status.writable == "*"
    linked = await linking.link(load(home), entry)
    assert (linked.url, linked.in_keyring, linked.before, linked.lost) == (edge.url, True, None, [])
    assert (await meta(home))["sync_url"] == edge.url
    assert vault.read(files) is not None

    wanted = {name: values[0] for name, values in parse_qs(urlsplit(asked[0]).query).items()}
    assert wanted["scope"] == "memory:read memory:write memory:admin sync"
    assert wanted["resource"] == f"{edge.url}/mcp"
    assert (wanted["code_challenge_method"], len(wanted["state"]) >= 43) == ("S256", True)
    assert wanted["redirect_uri"].startswith("http://127.0.0.1:")
    rows = await edge.authority.database.query("select name, kind, auth_method from oauth_client")
    assert [dict(row) for row in rows] == [{"name": "Ada's laptop", "kind": "registered", "auth_method": "none"}]


async def test_a_person_without_a_browser_here_pastes_where_theirs_has_ended(edge: LocalEdge):
    async def elsewhere(address: str, paste: Callable[[str], None]) -> None:
        with pytest.raises(NotForUs):
            paste(address)
        paste(await asyncio.to_thread(decides, edge, address))

    tasks: list[asyncio.Task[None]] = []
    entry = await linking.sign_in(
        edge.url, "a laptop", lambda address, paste: tasks.append(asyncio.create_task(elsewhere(address, paste)))
    )
    await tasks[0]
    assert entry.status.spaces == "*"


async def test_a_device_gets_what_the_owner_has_chosen(edge: LocalEdge):
    spaces = {"main": "memory:read memory:write", "team": "memory:read"}
    entry = await linking.sign_in(edge.url, "a laptop", browser(edge, spaces))
    assert (entry.status.spaces, entry.status.writable) == (["main", "team"], ["main"])


async def test_without_the_scope_sync_nothing_is_left_here_or_there(edge: LocalEdge, files: SyncFiles):
    with pytest.raises(LinkBroken, match="allow it to sync"):
        await linking.sign_in(edge.url, "a laptop", browser(edge, sync=""))
    assert vault.read(files) is None
    assert edge.paths()[-2:] == ["GET /sync/status", "POST /revoke"]
    assert await asyncio.to_thread(alive, edge) == 0


async def test_a_device_that_may_read_nothing_has_nothing_to_exchange(edge: LocalEdge):
    with pytest.raises(LinkBroken):
        await linking.sign_in(edge.url, "a laptop", browser(edge, {"main": "memory:write"}))
    assert await asyncio.to_thread(alive, edge) == 0


async def test_an_owner_who_refuses_is_believed(edge: LocalEdge):
    with pytest.raises(NotAllowed, match="You have not let this device in"):
        await linking.sign_in(edge.url, "a laptop", browser(edge, decision="deny"))
    assert edge.of("/token") == []


async def test_a_person_who_takes_too_long_is_not_waited_for(edge: LocalEdge, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linking, "LOGIN_S", 0.05)
    with pytest.raises(SyncError, match="Nobody has let this device in"):
        await linking.sign_in(edge.url, "a laptop", lambda *_: None)


async def test_an_answer_of_another_server_is_not_followed(edge: LocalEdge):
    def present(address: str, _paste: Any) -> None:
        def browse() -> None:
            where = decides(edge, address)
            httpx.get(httpx.URL(where).copy_set_param("iss", "https://evil.example"), verify=False)

        threading.Thread(target=browse).start()

    with pytest.raises(SyncError, match="another server"):
        await linking.sign_in(edge.url, "a laptop", present)
    assert edge.of("/token") == []


# What is found at the address


@pytest.mark.parametrize(
    ("path", "answer", "kind", "words"),
    [
        ("/", HTMLResponse("Welcome"), NotFound, "no edge of shoal"),
        (RESOURCE, JSONResponse({}, 503), EdgeBusy, "503"),
        (SERVER, JSONResponse({}, 500), EdgeBusy, "500"),
        ("/.well-known/o", JSONResponse(ABOUT), SyncError, "calls itself"),
        ("/register", JSONResponse({"error": "invalid_client_metadata"}, 400), SyncError, "refuses to register"),
        ("/register", JSONResponse({"error": "temporarily_unavailable"}, 503), EdgeBusy, "503"),
        ("/register", JSONResponse({"client_id": 5}, 201), SyncError, "can't be used"),
        ("/register", HTMLResponse("Log in", 200), SyncError, "can't be used"),
        ("/register", HTMLResponse("Log in", 404), EdgeUnreachable, "404"),
    ],
)
async def test_what_is_no_edge_or_has_trouble_is_told(
    edge: LocalEdge, path: str, answer: Response, kind: type[ShoalError], words: str
):
    edge.before = lambda asked: answer if asked.path.startswith(path) else None
    with pytest.raises(kind, match=words) as caught:
        await linking.sign_in(edge.url, "a laptop", lambda *_: None)
    assert type(caught.value) is kind


async def test_an_edge_that_does_not_describe_its_authorization_server_is_told_nothing(edge: LocalEdge):
    def describe(asked: Asked) -> Response | None:
        return None if asked.path == RESOURCE else JSONResponse({"issuer": edge.url})

    edge.before = describe
    with pytest.raises(SyncError, match="no description"):
        await linking.sign_in(edge.url, "a laptop", lambda *_: None)


@pytest.mark.parametrize(
    ("path", "different"),
    [
        (RESOURCE, {"resource": "https://evil.example/mcp"}),
        (RESOURCE, {"authorization_servers": ["https://evil.example"]}),
        (SERVER, {"issuer": "https://evil.example"}),
        (SERVER, {"token_endpoint": "https://evil.example/token"}),
        (SERVER, {"authorization_endpoint": "https://evil.example/authorize"}),
        (SERVER, {"registration_endpoint": "https://evil.example/register"}),
        (SERVER, {"revocation_endpoint": "https://evil.example/revoke"}),
    ],
)
async def test_an_edge_that_leads_elsewhere_is_told_nothing(edge: LocalEdge, path: str, different: dict[str, Any]):
    async with httpx.AsyncClient(verify=False) as http:
        told = (await http.get(edge.url + path)).json()
    edge.before = instead(path, JSONResponse({**told, **different}))
    if different.get("authorization_servers"):
        # The other server's own description is never believed here, whatever it says.
        with pytest.raises((SyncError, EdgeUnreachable)):
            await linking.sign_in(edge.url, "a laptop", lambda *_: None)
    else:
        with pytest.raises(SyncError, match=r"does not trust|no description"):
            await linking.sign_in(edge.url, "a laptop", lambda *_: None)
    assert edge.of("/register") == []


async def test_where_devices_do_not_register_themselves_a_token_is_the_way():
    edge = LocalEdge(settings={"registration": False})
    await asyncio.to_thread(edge.__enter__)
    try:
        with pytest.raises(SyncError, match="--token-stdin"):
            await linking.sign_in(edge.url, "a laptop", lambda *_: None)
    finally:
        await asyncio.to_thread(edge.__exit__)


async def test_an_edge_of_another_protocol_is_not_linked(edge: LocalEdge):
    token = device_token(edge)
    async with httpx.AsyncClient(verify=False, headers={"authorization": f"Bearer {token}"}) as http:
        told = (await http.get(f"{edge.url}/sync/status")).json()
    edge.before = instead("/sync/status", JSONResponse({**told, "proto": 2}))
    with pytest.raises(ProtocolMismatch, match="Update shoal"):
        await linking.with_token(edge.url, token)
    edge.before = instead("/sync/status", JSONResponse({**told, "proto": 0}))
    with pytest.raises(ProtocolMismatch, match="Deploy the newer shoal"):
        await linking.with_token(edge.url, token)


# By a device token


async def test_a_device_token_links_without_a_browser(edge: LocalEdge, home: Home):
    linked = await linking.link(load(home), await linking.with_token(edge.url, device_token(edge)))
    assert linked.status.spaces == ["main"]
    assert (await meta(home))["sync_url"] == edge.url


async def test_a_token_that_is_unknown_or_may_not_sync_is_not_kept(edge: LocalEdge, files: SyncFiles):
    with pytest.raises(LinkBroken, match="does not know the token"):
        await linking.with_token(edge.url, f"shoal_d_{'x' * 43}")
    token = device_token(edge, sync="")
    with pytest.raises(LinkBroken, match="allow it to sync"):
        await linking.with_token(edge.url, token)
    assert vault.read(files) is None


# Again, elsewhere, and the end


async def stored(home: Home, *contents: str) -> None:
    async with open_runtime(load(home)) as runtime:
        for content in contents:
            await runtime.memory.store(StoreRequest(content=content), Caller())


async def all_sent(home: Home) -> None:
    """Leave the database as after a round with an edge that allows every space."""
    async with open_database(load(home)) as database:
        await database.batch(
            [
                Statement("update record set dirty = 0"),
                Statement("update cell set dirty = 0"),
                Statement("insert into sync_space (space, cursor, batch) values ('*', 5, '0123456789abcdef')"),
            ]
        )


async def test_another_edge_gets_everything_anew_and_the_old_one_its_token_back(edge: LocalEdge, home: Home):
    await stored(home, "one", "two")
    await linking.link(load(home), await linking.sign_in(edge.url, "a laptop", browser(edge)))
    await all_sent(home)
    assert await waiting(home) == 0
    other = LocalEdge()
    await asyncio.to_thread(other.__enter__)
    try:
        linked = await linking.link(load(home), await linking.with_token(other.url, device_token(other)))
    finally:
        await asyncio.to_thread(other.__exit__)
    assert (linked.before, linked.not_revoked, linked.lost) == (edge.url, None, [])
    assert await waiting(home) >= 2
    async with open_database(load(home)) as database:
        assert await database.query("select * from sync_space") == []
    assert await asyncio.to_thread(alive, edge) == 0


async def test_the_same_edge_again_goes_on_where_it_was_and_says_which_spaces_are_lost(edge: LocalEdge, home: Home):
    await stored(home, "one")
    await linking.link(load(home), await linking.sign_in(edge.url, "a laptop", browser(edge)))
    async with open_database(load(home)) as database:
        await database.batch(
            [
                Statement("update record set dirty = 0"),
                Statement("update cell set dirty = 0"),
                Statement("insert into sync_space (space, cursor) values ('main', 5), ('team', 5)"),
            ]
        )
    narrower = await linking.sign_in(edge.url, "a laptop", browser(edge, {"main": EVERYTHING["*"]}))
    linked = await linking.link(load(home), narrower)
    assert (linked.before, linked.lost, linked.not_revoked) == (edge.url, ["team"], None)
    assert await waiting(home) == 0
    async with open_database(load(home)) as database:
        assert len(await database.query("select * from sync_space")) == 2
    # The first grant was given back; the second is in use.
    assert await asyncio.to_thread(alive, edge) == 1


async def test_the_same_device_token_again_is_no_token_of_before(edge: LocalEdge, home: Home):
    token = device_token(edge)
    for before in (None, edge.url):
        linked = await linking.link(load(home), await linking.with_token(edge.url, token))
        assert (linked.before, linked.not_revoked) == (before, None)


async def test_a_link_waits_for_the_round_with_another_edge(
    edge: LocalEdge, home: Home, files: SyncFiles, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(linking, "ROUND_WAIT_S", 0.05)
    entry = await linking.with_token(edge.url, device_token(edge))
    async with held(files.round_lock, 1, "exchanging"):
        with pytest.raises(SyncError, match="exchanging memories"):
            await linking.link(load(home), entry)
    assert vault.read(files) is None
    assert "sync_url" not in await meta(home)


async def test_a_link_that_can_not_be_kept_leaves_nothing_at_the_edge(edge: LocalEdge, home: Home, files: SyncFiles):
    entry = await linking.sign_in(edge.url, "a laptop", browser(edge))
    files.link.parent.write_text("no folder")
    with pytest.raises(SyncError, match="can't be written"):
        await linking.link(load(home), entry)
    assert await asyncio.to_thread(alive, edge) == 0
    assert "sync_url" not in await meta(home)


class CutOff(Exception):
    """The process ends here."""


async def test_a_change_of_edges_that_is_cut_off_leaves_no_link_and_is_done_again(
    edge: LocalEdge, home: Home, monkeypatch: pytest.MonkeyPatch
):
    await stored(home, "one")
    async with open_database(load(home)) as database:
        await database.batch([replication.linked("https://old.example")])
    await all_sent(home)
    entry = await linking.with_token(edge.url, device_token(edge))

    async def fail(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as cut:
        cut.setattr(linking.queue, "all_of", fail)
        with pytest.raises(CutOff):
            await linking.link(load(home), entry)
    assert "sync_url" not in await meta(home)
    await linking.link(load(home), entry)
    assert (await meta(home))["sync_url"] == edge.url
    assert await waiting(home) > 0


async def test_unlinking_gives_the_token_back_and_keeps_every_memory(
    edge: LocalEdge, home: Home, files: SyncFiles, own_keyring: OwnKeyring
):
    await stored(home, "one", "two")
    await linking.link(load(home), await linking.sign_in(edge.url, "a laptop", browser(edge)))
    ended = await linking.unlink(load(home))
    assert (ended.url, ended.not_revoked) == (edge.url, None)
    assert await asyncio.to_thread(alive, edge) == 0
    assert vault.read(files) is None
    assert own_keyring.kept == {}
    assert "sync_url" not in await meta(home)
    async with open_runtime(load(home)) as runtime:
        assert (await runtime.memory.stats(Caller())).live == 2
    with pytest.raises(NotLinked, match="shoal link"):
        await linking.unlink(load(home))


async def test_unlinking_works_without_the_edge_and_says_what_is_left_to_do(home: Home):
    with_edge = LocalEdge()
    await asyncio.to_thread(with_edge.__enter__)
    entry = await linking.sign_in(with_edge.url, "a laptop", browser(with_edge))
    await linking.link(load(home), entry)
    await asyncio.to_thread(with_edge.__exit__)
    ended = await linking.unlink(load(home))
    assert ended.not_revoked is not None
    assert f"{with_edge.url}/account" in ended.not_revoked.mend
    assert "sync_url" not in await meta(home)


async def test_a_device_token_is_forgotten_here_and_its_owner_told_to_remove_it(edge: LocalEdge, home: Home):
    await linking.link(load(home), await linking.with_token(edge.url, device_token(edge)))
    ended = await linking.unlink(load(home))
    assert ended.not_revoked is not None
    assert "by its owner only" in ended.not_revoked.message


async def test_a_link_whose_token_is_lost_can_be_ended(edge: LocalEdge, home: Home, files: SyncFiles):
    await linking.link(load(home), await linking.with_token(edge.url, device_token(edge)))
    files.link.unlink()
    ended = await linking.unlink(load(home))
    assert ended.not_revoked is not None
    assert "can't be read" in ended.not_revoked.message


async def test_an_edge_that_takes_long_to_take_a_token_back_is_not_waited_for(
    edge: LocalEdge, home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(linking, "REVOKE_S", 0.05)
    await linking.link(load(home), await linking.sign_in(edge.url, "a laptop", browser(edge)))
    go_on = threading.Event()

    def stall(asked: Asked) -> None:
        if asked.path == "/revoke":
            go_on.wait(5)

    edge.after = stall
    ended = await linking.unlink(load(home))
    go_on.set()
    assert ended.not_revoked is not None
    assert "no answer" in ended.not_revoked.message
