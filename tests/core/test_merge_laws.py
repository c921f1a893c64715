"""The merge is commutative, associative and idempotent: on the real SQL, and as far as searches can see."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.rig import ALL, NOW, Rig, cell, opened

from shoal.core.cells import Cell
from shoal.core.ids import edge_id, memory_id
from shoal.schema.models import GetRequest

TEXTS = ("deploy failed", "部署成功")
WORDS = ("deploy", "部署", "alpha", "标签", "ann", "bug", "note")
FLAGS = ("tag:alpha", "tag:标签", "entity:Ann", "source:chat")
MEMORIES = tuple(memory_id("main", text) for text in TEXTS)
EDGE = edge_id("main", MEMORIES[1], "supersedes", MEMORIES[0], symmetric=False)


@st.composite
def inits(draw: st.DrawFn) -> tuple[str, str, int, Any]:
    """Return an init of some life: even ones are purges. What an id is of never changes, who wrote it does."""
    number = draw(st.integers(0, 1))
    rank = draw(st.integers(1, 4))
    value = {
        "v": 1,
        "class": "memory",
        "space": "main",
        "content": TEXTS[number],
        "type": draw(st.sampled_from(("note", "bug"))),
        "occurred_at": NOW + draw(st.integers(0, 3)),
        "created_at": NOW,
        "conversation_id": "c",
        "position": number,
    }
    return MEMORIES[number], "init", rank, None if rank % 2 == 0 else value


def edges() -> st.SearchStrategy[tuple[str, str, int, Any]]:
    init = {
        "v": 1,
        "class": "edge",
        "space": "main",
        "src": MEMORIES[1],
        "relation": "supersedes",
        "dst": MEMORIES[0],
        "created_at": NOW,
    }
    return st.sampled_from([(EDGE, "init", 1, init), (EDGE, "trash", 1, NOW), (EDGE, "trash", 1, None)])


def fields() -> st.SearchStrategy[tuple[str, str, int, Any]]:
    values = st.one_of(
        st.tuples(st.sampled_from(FLAGS), st.sampled_from((0, 1))),
        st.tuples(st.just("type"), st.sampled_from(("note", "bug"))),
        st.tuples(st.just("occurred_at"), st.integers(NOW, NOW + 3)),
        st.tuples(st.just("archived"), st.sampled_from((0, 1))),
        st.tuples(st.just("trash"), st.sampled_from((NOW, None))),
        st.tuples(st.just("md:k"), st.sampled_from(('"v"', "[1]", None))),
        st.tuples(st.just("superseded"), st.sampled_from((MEMORIES[1], None))),
        st.tuples(st.just("n:dev"), st.integers(1, 3)),
    )
    return st.tuples(st.sampled_from(MEMORIES), st.sampled_from((1, 3)), values).map(
        lambda drawn: (drawn[0], drawn[2][0], drawn[1], drawn[2][1])
    )


@st.composite
def cells(draw: st.DrawFn) -> list[Cell]:
    """Return cells of other replicas, each with a stamp of its own, as stamps are."""
    drawn = draw(st.lists(st.one_of(inits(), fields(), fields(), edges()), min_size=1, max_size=14))
    stamps = draw(st.permutations(range(len(drawn))))
    return [
        cell(record, field, rank, NOW + stamp, value)
        for (record, field, rank, value), stamp in zip(drawn, stamps, strict=True)
    ]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Return the same cells twice: in any order, cut into any pages, some of them delivered again."""
    these = draw(cells())

    def delivered() -> list[list[Cell]]:
        again = draw(st.lists(st.sampled_from(these), max_size=4))
        order = draw(st.permutations([*these, *again]))
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(order) - 1)), max_size=6)))
        return [page for start, end in itertools.pairwise([0, *cuts, len(order)]) if (page := order[start:end])]

    return delivered(), delivered()


async def seen(rig: Rig) -> dict[str, Any]:
    """Return everything that a replica can see or must converge on."""
    found: dict[str, Any] = {
        "cells": rig.rows(
            "select hex(r.id), c.field, c.rank, c.hlc, c.value from cell c join record r using (rid) order by 1, 2"
        ),
        "records": rig.rows(
            # A purged row remembers its class where there was something to erase.
            "select hex(id), rank, hlc, init, iif(init is null, null, class) as class, life, state, type, occurred_at,"
            " created_at, conversation_id,"
            " position, hex(src), hex(dst), updated_at from record where rank > 0 order by 1"
        ),
        "labels": rig.rows("select text, prepared from label order by 1"),
        "content rows": rig.rows(
            "select hex(r.id), f.rowid % 1024 from content_fts f join record r on r.rid = f.rowid / 1024 order by 1, 2"
        ),
        "label rows": rig.rows("select hex(r.id) from label_fts f join record r on r.rid = f.rowid order by 1"),
        "wanted": rig.rows("select hex(id), want > 0 from record where init is not null order by 1"),
    }
    for table in ("content_fts", "label_fts"):
        key = "f.rowid / 1024" if table == "content_fts" else "f.rowid"
        for word in WORDS:
            found[f"{table} {word}"] = rig.rows(
                f"select hex(r.id) from {table} f join record r on r.rid = {key} where f.{table} match ? order by 1",
                f'"{word}"',
            )
    request = GetRequest(ids=list(MEMORIES), with_edges=True, with_history=True)
    found["memories"] = (await rig.memory.get(request, ALL)).memories
    return found


async def after(pages: Sequence[Sequence[Cell]]) -> dict[str, Any]:
    rig = await opened(embedder=None)
    for page in pages:
        await rig.apply(*page)
    assert rig.value("select count(*) from record where dirty = 1") == 0
    assert_consistent(rig)
    return await seen(rig)


def assert_consistent(rig: Rig) -> None:
    """Check what must hold after any batch, whatever came."""
    assert rig.rows("select 1 from cell c join record r using (rid) where c.rank < r.rank") == []
    # Words stand in the index exactly where a text does, labels where a memory can be seen.
    texts = "select rid from record where class = 'memory' and init is not null"
    assert rig.rows("select distinct rowid / 1024 from content_fts order by 1") == rig.rows(f"{texts} order by 1")
    labelled = "select rid from record where class = 'memory' and state > 0 order by 1"
    assert rig.rows("select rowid from label_fts order by 1") == rig.rows(labelled)
    used = "select substr(field, instr(field, ':') + 1) from cell where value = 1"
    assert rig.rows(f"select text from label where text not in ({used})") == []
    newest = (
        "select max(cast(substr(hlc, 1, 19) as integer)) from (select hlc from record union all select hlc from cell)"
    )
    assert rig.value(f"select v >= coalesce(({newest}), 0) from meta where k = 'clock'") == 1


FEW = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=5000, suppress_health_check=[HealthCheck.too_slow])


def check_any_order(pages: tuple[list[list[Cell]], list[list[Cell]]]) -> None:
    first, second = asyncio.run(after(pages[0])), asyncio.run(after(pages[1]))
    assert first == second


@FEW
@given(pages=deliveries())
def test_any_order_any_pages_and_any_repeats_lead_to_one_state(pages):
    check_any_order(pages)


@pytest.mark.long
@MANY
@given(pages=deliveries())
def test_any_order_leads_to_one_state_in_thousands_of_cases(pages):
    check_any_order(pages)


@FEW
@given(these=cells())
def test_what_wins_is_the_greatest_rank_and_stamp_of_each_cell(these):
    """Against a model of one line: the merge in Python."""
    state = asyncio.run(after([these]))
    winners: dict[tuple[str, str], Cell] = {}
    for one in sorted(these, key=lambda one: (one.rank, one.hlc)):
        winners[one.id, one.field] = one
    lives = {one.id: one.rank for (_, field), one in winners.items() if field == "init"}
    expected = [
        (one.id.upper(), one.field, one.rank, one.hlc, one.value)
        for (record, field), one in winners.items()
        if field != "init" and (one.rank or 0) >= (lives.get(record) or 0)
    ]
    assert state["cells"] == sorted(expected)
    assert [(row[0], row[1], row[2]) for row in state["records"]] == sorted(
        (one.id.upper(), one.rank, one.hlc) for (_, field), one in winners.items() if field == "init"
    )
