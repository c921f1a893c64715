"""The merge is commutative, associative and idempotent: on cells as they travel, through `apply` on real SQLite.

tests/core/test_merge_laws.py holds it to what searches and readers see; here the cells are any that the wire takes,
those of newer versions and of several spaces among them.
"""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.rig import NOW, opened

from shoal.core.cells import INIT, Cell
from shoal.core.ids import memory_id
from shoal.sync.wire_cells import wire_cell

TEXTS = ("deploy failed", "部署成功")
SPACES = ("main", "team")
RECORDS = [(space, text) for space in SPACES for text in TEXTS]
PLAIN = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=4_000, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def sets_of_cells(draw: st.DrawFn) -> list[Cell]:
    """Return cells with a stamp each."""
    count = draw(st.integers(1, 16))
    stamps = draw(st.permutations(range(count)))
    return [wire_cell(draw(_sent(stamp)), NOW + 100) for stamp in stamps]


def _sent(stamp: int) -> st.SearchStrategy[list[Any]]:
    hlc = f"{(NOW + stamp) * 65536:019d}-d{stamp % 3}"

    def fields(of: tuple[str, str]) -> st.SearchStrategy[list[Any]]:
        space, text = of
        record = memory_id(space, text)
        init = {
            "v": 1,
            "class": "memory",
            "space": space,
            "content": text,
            "type": "note",
            "occurred_at": NOW + stamp,
            "created_at": NOW,
        }
        newer = {"class": "widget", "space": space, "stamp": stamp}
        values: st.SearchStrategy[tuple[str, str, Any, int]] = st.one_of(
            st.sampled_from([(record, INIT, init, 1), (record, INIT, init, 3), (record, INIT, None, 2)]),
            st.sampled_from(
                [(memory_id(space, "widget"), INIT, newer, 1), (memory_id(space, "widget"), INIT, None, 2)]
            ),
            st.tuples(
                st.just(record),
                st.sampled_from(["tag:a", "tag:标签", "entity:Ann", "archived", "n:d1", "zz:new"]),
                st.sampled_from([0, 1]),
                st.sampled_from([1, 3, 5]),
            ),
            st.tuples(
                st.just(record),
                st.sampled_from(["trash", "superseded", "md:k", "reason", "zz"]),
                st.just(None),
                st.sampled_from([1, 3]),
            ),
        )
        return values.map(lambda one: [one[0], space, one[1], one[3], hlc, one[2]])

    return st.sampled_from(RECORDS).flatmap(fields)


async def merged(*pages: list[Cell]) -> list[tuple[Any, ...]]:
    """Return everything that replicas exchange, after these pages."""
    rig = await opened(embedder=None)
    for page in pages:
        if page:
            await rig.apply(*page)
    return rig.rows(
        "select hex(id), space, 'init' as field, rank, hlc, init, state, type from record where rank > 0 union all"
        " select hex(m.id), m.space, c.field, c.rank, c.hlc, c.value, null, null"
        " from cell c join record m using (rid) order by 1, 2, 3"
    )


def check(cells: list[Cell], parts: tuple[int, int]) -> None:
    first, second = sorted(min(part, len(cells)) for part in parts)
    a, b, c = cells[:first], cells[first:second], cells[second:]

    async def laws() -> None:
        expected = await merged(a, b, c)
        assert await merged(c, a, b) == expected, "commutative"
        assert await merged([*a, *b], c) == await merged(a, [*b, *c]) == expected, "associative"
        assert await merged(a, b, b, c, a) == expected, "idempotent"

    asyncio.run(laws())


@PLAIN
@given(cells=sets_of_cells(), parts=st.tuples(st.integers(0, 16), st.integers(0, 16)))
def test_pages_may_come_in_any_order_together_or_apart_and_again(cells: list[Cell], parts: tuple[int, int]):
    check(cells, parts)


@pytest.mark.long
@MANY
@given(cells=sets_of_cells(), parts=st.tuples(st.integers(0, 16), st.integers(0, 16)))
def test_pages_may_come_in_any_order_in_thousands_of_cases(cells: list[Cell], parts: tuple[int, int]):
    check(cells, parts)


def test_every_order_of_one_memorys_lives_leads_to_the_same():
    record = memory_id("main", TEXTS[0])
    init = {
        "v": 1,
        "class": "memory",
        "space": "main",
        "content": TEXTS[0],
        "type": "note",
        "occurred_at": NOW,
        "created_at": NOW,
    }
    lives = [(1, INIT, init), (2, INIT, None), (3, INIT, init), (1, "tag:a", 1), (3, "tag:a", 0)]
    cells = [
        wire_cell([record, "main", field, rank, f"{(NOW + 9 - number) * 65536:019d}-dev", value], NOW + 100)
        for number, (rank, field, value) in enumerate(lives)
    ]

    async def outcomes() -> list[Any]:
        return [await merged(*([one] for one in order)) for order in itertools.permutations(cells)]

    first, *others = asyncio.run(outcomes())
    assert [row[2:4] for row in first] == [(INIT, 3), ("tag:a", 3)]
    assert all(other == first for other in others)
