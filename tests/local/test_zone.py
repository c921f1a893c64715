from zoneinfo import ZoneInfo

import pytest

from shoal.local.zone import machine_zone


@pytest.mark.parametrize(("variable", "zone"), [("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo")])
def test_the_variable_names_the_zone(monkeypatch: pytest.MonkeyPatch, variable: str, zone: str) -> None:
    monkeypatch.setenv("TZ", variable)
    assert machine_zone() == zone


def test_a_rule_that_names_no_zone_counts_as_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert machine_zone() == "UTC"


def test_the_machine_has_a_zone_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    ZoneInfo(machine_zone())
