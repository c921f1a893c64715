import threading
import time

import pytest

from shoal.local import lock
from shoal.local.home import Home
from shoal.local.lock import hold_daemon_lock, hold_start_lock
from shoal.schema.errors import DaemonRunning, DaemonUnreachable


def test_a_second_daemon_is_told_where_the_first_one_is(home: Home) -> None:
    home.ensure()
    with (
        hold_daemon_lock(home.daemon_lock, lambda: None),
        pytest.raises(DaemonRunning, match="http://x") as caught,
        hold_daemon_lock(home.daemon_lock, lambda: "http://x"),
    ):
        pass
    assert caught.value.details == {"url": "http://x"}


def test_a_daemon_on_its_way_out_is_waited_for(home: Home) -> None:
    home.ensure()
    order: list[str] = []

    def leave() -> None:
        with hold_daemon_lock(home.daemon_lock, lambda: None):
            order.append("first")
            entered.set()
            time.sleep(0.2)
            order.append("first is out")

    entered = threading.Event()
    thread = threading.Thread(target=leave)
    thread.start()
    entered.wait()
    with hold_daemon_lock(home.daemon_lock, lambda: None):
        order.append("second")
    thread.join()
    assert order == ["first", "first is out", "second"]


def test_one_that_hangs_is_not_waited_for_without_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ensure()
    monkeypatch.setattr(lock, "LEAVING_S", 0.2)
    with (
        hold_daemon_lock(home.daemon_lock, lambda: None),
        pytest.raises(DaemonRunning),
        hold_daemon_lock(home.daemon_lock, lambda: None),
    ):
        pass


def test_a_start_that_hangs_is_an_error_for_the_others(home: Home) -> None:
    home.ensure()
    with (
        hold_start_lock(home.start_lock, 1),
        pytest.raises(DaemonUnreachable, match="start"),
        hold_start_lock(home.start_lock, 0.1),
    ):
        pass
    with hold_start_lock(home.start_lock, 0.1):
        pass
