"""No statement of replication reads a whole table that grows, but those that must, each for its reason."""

import asyncio
from typing import Final

import pytest
from tests.core.rig import DAY, Clock, Rig
from tests.core.test_plans import MARKS, issued, whole_reads
from tests.sync.pair import Laptop, laptop, opened_edge

from shoal.core import replication
from shoal.core.caller import Caller, Scope
from shoal.schema.errors import EdgeUnreachable
from shoal.schema.models import StoreItem
from shoal.sync import clock, leaving, queue, server, subscription

EXCUSED: Final = {
    "order by seq desc limit 1": ("sync_batch", "the last row"),
    "max(rid)": ("record", "the last row"),
    "delete from sync_batch": ("sync_batch", "once a day: where the history ends"),
    "select distinct space from record": ("record", "once in a token's life: which spaces there are, living or not"),
    "delete from label": ("label", "when a space leaves a device: words that no other space has"),
}
"""By what a statement's text has: the table or index that it may read whole or from its end, and why."""
MODULES: Final = (clock, leaving, queue, server, subscription, replication)


async def scenario() -> list[Rig]:
    """Do everything that replication can, with two devices, and return the edge and the devices."""
    edge = await opened_edge()
    one, other = await laptop(edge, "aaaa", clock=Clock()), await laptop(edge, "bbbb")
    for device in (one, other):
        await device.rig.store_all([StoreItem(content=f"{n} of one text", tags=["标签", "x"]) for n in range(40)])
        await device.rig.store("elsewhere", space="team", metadata={"k": 1})
        await device.engine.round(limit=30)
    await one.engine.round()
    await refused(one)
    await ahead(one)
    await restored(edge, one)
    await parted(other)
    await server.trim_history(edge.memory.context)
    for device in (one, other):
        database, now = device.rig.database, device.rig.clock()
        await database.batch([replication.linked("https://edge.example"), *replication.succeeded(now, 1, "*")])
        await database.batch([replication.failed(EdgeUnreachable("Nobody answers.", "Wait."), now)])
        await database.batch([replication.left(["team"], "a copy", now)])
        await replication.info(database, now)
        await database.batch([replication.seen(), *replication.unlinked()])
    return [edge, one.rig, other.rig]


async def refused(device: Laptop) -> None:
    """Have cells laid aside, tried again, and replaced by others' writes."""
    await device.rig.store("laid aside", tags=["y"])
    device.rig.connection.execute("update cell set value = 7 where field = 'tag:y'")
    await device.engine.round()
    await replication.info(device.rig.database, device.rig.clock())
    await queue.again(device.rig.database)
    await device.engine.round()


async def ahead(device: Laptop) -> None:
    """Write with a clock that is ahead."""
    device.rig.clock.now += DAY
    await device.rig.store("from tomorrow")
    await device.engine.round()


async def restored(edge: Rig, device: Laptop) -> None:
    """Let the edge forget its history."""
    edge.connection.execute("update sync_batch set name = '0123456789abcdef'")
    assert (await device.engine.round()).restored


async def parted(device: Laptop) -> None:
    """Take a space away, and give it back."""
    everything = device.transport.caller
    scopes = frozenset(Scope)
    device.transport.caller = Caller(scopes=scopes, spaces=("main",))
    device.engine = device.new_engine()
    await device.engine.round()
    device.transport.caller = everything
    await device.engine.round()


@pytest.fixture(scope="module")
def recorded() -> list[Rig]:
    return asyncio.run(scenario())


def texts() -> dict[str, str]:
    """Return the statements of replication by where they stand."""
    found: dict[str, str] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            several = value if isinstance(value, tuple) else (value,)
            found |= {
                f"{module.__name__}.{name}": text
                for text in several
                if isinstance(text, str)
                and text.split(" ")[0].strip() in ("select", "insert", "update", "delete", "with")
            }
    return found


def excused(text: str, scan: str) -> bool:
    return scan in MARKS or any(part in text and scan == table for part, (table, _) in EXCUSED.items())


def test_the_scenario_issues_every_statement(recorded: list[Rig]):
    seen = {text for rig in recorded for text in issued(rig.database)}
    shared = texts()
    assert len(shared) >= 20
    missing = {name for name, text in shared.items() if text not in seen and "%" not in text}
    assert missing == set()


def test_no_statement_reads_a_whole_table_that_grows_without_a_reason(recorded: list[Rig]):
    found = {
        statement.sql: scans
        for rig in recorded
        for statement in issued(rig.database).values()
        if not statement.sql.lstrip().startswith("create")
        and (scans := [scan for scan in whole_reads(rig.connection, statement) if not excused(statement.sql, scan)])
    }
    assert found == {}
