"""A month's bill is usage beyond what is included, times the price."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.edge_costs import BASE_USD, PRICES, Month, Price, bill, main, months, table, used
from click.testing import CliRunner

NOTHING = {"cpu_ms": 0, "mean_rows_read": 0, "mean_rows_written": 0}
OPERATIONS: dict[str, dict[str, float]] = {
    "store": {"cpu_ms": 10, "mean_rows_read": 60, "mean_rows_written": 15, "database_bytes": 1_000},
    "find": {"cpu_ms": 20, "mean_rows_read": 1_000, "mean_rows_written": 0},
    "queue_1": {"cpu_ms": 5, "mean_rows_read": 40, "mean_rows_written": 5},
    "cron_confirming": {**NOTHING, "mean_rows_written": 1_000, "memories": 1_000},
    "cron_5_minutes": NOTHING,
    "cron_hourly": {**NOTHING, "mean_rows_read": 10},
}


def test_only_what_goes_beyond_the_included_is_billed():
    price = Price(included=1e6, usd=0.40, per=1e6)
    assert (price.of(0), price.of(1e6), price.of(3e6)) == (0, 0, pytest.approx(0.80))


def test_a_month_uses_what_its_requests_their_queue_and_the_crons_use():
    amounts = used(Month(memories=2_000, new=1_000, searches=3_000), OPERATIONS)
    crons = 30 * 288 + 30 * 24
    assert amounts["requests"] == 1_000 + 1_000 + 3_000 + crons
    assert amounts["CPU ms"] == 1_000 * (10 + 5) + 3_000 * 20
    assert amounts["D1 rows read"] == 1_000 * (60 + 40) + 3_000 * 1_000 + 30 * 24 * 10
    assert amounts["D1 rows written"] == 1_000 * (15 + 5 + 1)
    assert amounts["D1 GB stored"] == 2_000 * 1_000 / 1e9
    assert amounts["queue operations"] == 3_000
    assert amounts["Vectorize dimensions stored"] == 2_000 * 1024
    assert amounts["Vectorize dimensions queried"] == (2_000 + 3_000) * 1024
    assert amounts.keys() == PRICES.keys()


def test_a_large_month_is_billed_item_by_item():
    dollars = bill(Month(memories=1_000_000, new=1_000_000, searches=3_000_000), OPERATIONS)
    assert dollars["queue operations"] == pytest.approx(0.80)
    assert dollars["Vectorize dimensions stored"] == pytest.approx((1_024 - 10) / 100 * 0.05)
    assert dollars["Vectorize dimensions queried"] == pytest.approx((4_096 - 50) * 0.01)
    assert dollars["D1 rows written"] == 0


def test_a_small_month_costs_the_plan_alone_and_a_later_one_stores_less():
    first, later = months(10_000).values()
    assert sum(bill(first, OPERATIONS).values()) < 0.005
    assert later == Month(memories=10_000, new=1_000, searches=30_000)


def test_the_command_prints_a_line_for_everything_that_has_a_price(tmp_path: Path):
    figures: dict[str, Any] = {"memories": 1_000, "database_bytes_a_memory": 1_000, "operations": OPERATIONS}
    (tmp_path / "figures.json").write_text(json.dumps(figures))
    printed = CliRunner().invoke(main, [str(tmp_path / "figures.json")]).output
    assert printed.strip() == table(figures)
    heading, _, *lines, total = printed.strip().splitlines()
    assert [line.split("|")[1].strip() for line in lines] == list(PRICES)
    assert {line.count("|") for line in (heading, *lines, total)} == {8}
    assert f"**${BASE_USD:.2f}**" in total
