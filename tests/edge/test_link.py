"""A laptop is linked to the real Worker by its owner's browser, exchanges a memory each way, and is let go."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import keyring
import keyring.backends.fail
import pytest
from tests.edge.edge import COFFEE, Edge
from tests.edge.owner import Owner

from shoal.core.caller import Caller
from shoal.local.home import Home
from shoal.local.runtime import open_runtime
from shoal.local.settings import Loaded, load
from shoal.local.sync import linking, vault
from shoal.local.sync.credentials import Credentials
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.transport import HttpTransport
from shoal.schema.errors import LinkBroken
from shoal.schema.models import FindRequest, StoreRequest
from shoal.sync.engine import Engine

TEA = "The tea is in the blue tin."


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loaded]:
    """A laptop's settings, without a model and without anyone's keyring."""
    monkeypatch.setenv("SHOAL_MODEL", "off")
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    yield load(Home(tmp_path / "home"))
    keyring.set_keyring(before)


def test_a_laptop_is_linked_by_the_browser_exchanges_a_memory_each_way_and_is_let_go(edge: Edge, loaded: Loaded):
    edge.store(COFFEE)
    with Owner(edge.rig.url) as owner:
        owner.syncs = True
        owner.allows = {"*": "memory:read memory:write memory:admin"}

        def present(address: str, _paste: Any) -> None:
            threading.Thread(target=lambda: httpx.get(owner.lets_in(address), verify=False)).start()

        asyncio.run(_from_link_to_end(edge, loaded, present))


async def _from_link_to_end(edge: Edge, loaded: Loaded, present: Any) -> None:
    url, files = edge.rig.url, SyncFiles.of(loaded.home, loaded.database)
    linked = await linking.link(loaded, await linking.sign_in(url, "a laptop", present))
    assert (linked.url, linked.status.writable) == (url, "*")
    transport = HttpTransport(url, Credentials(files, url))
    async with open_runtime(loaded) as runtime:
        await runtime.memory.store(StoreRequest(content=TEA), Caller())
        report = await Engine(runtime.memory.context, transport, _nothing_leaves).round()
        assert (report.refused, report.skipped) == (0, 0)
        found = await runtime.memory.find(FindRequest(query="coffee machine"), Caller())
        assert [one.snippet for one in found.results] == [COFFEE]
    assert edge.value("select count(*) from record where init like '%blue tin%'") == 1
    found = vault.read(files)
    assert found is not None
    ended = await linking.unlink(loaded)
    assert ended.not_revoked is None
    vault.store(files, *found)
    with pytest.raises(LinkBroken):
        await transport.status()
    await transport.aclose()


async def _nothing_leaves(spaces: list[str]) -> None:
    raise AssertionError(f"{spaces} would leave")
