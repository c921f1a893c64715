"""The owner of a test's edge, who lets devices in with a browser of theirs."""

import threading
from collections.abc import Callable
from typing import Any

import httpx
from tests.edge.oauth import Flow
from tests.local.sync.rig import LocalEdge

EVERYTHING = {"*": "memory:read memory:write memory:admin"}


def decides(edge: LocalEdge, address: str, spaces: dict[str, str] | None = None, **different: str) -> str:
    """Open an authorization request, decide, and return where the browser is sent to. Sync is ticked."""
    with edge.flow() as flow:
        page = flow.past_sign_in(flow.browser.get(address))
        answer = flow.decide(page, spaces or EVERYTHING, **{"sync": "1", **different})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def browser(edge: LocalEdge, spaces: dict[str, str] | None = None, **different: str) -> Callable[..., None]:
    """Return what opens a browser in which the owner decides so, and which goes on to where that leads."""

    def browse(address: str) -> None:
        httpx.get(decides(edge, address, spaces, **different), verify=False)

    def present(address: str, _paste: Any) -> None:
        threading.Thread(target=browse, args=(address,)).start()

    return present


def device_token(edge: LocalEdge, **boxes: str) -> str:
    """Return a device token that the owner makes on the account page: for all of `main`, with sync, unless told."""
    with edge.flow() as flow:
        return made(flow, **boxes)


def made(flow: Flow, **boxes: str) -> str:
    flow.sign_in()
    page = flow.browser.get("/account")
    chosen = {"0-read": "1", "0-write": "1", "0-admin": "1", "sync": "1", "name": "a device", **boxes}
    answer = flow.browser.submit(page, "/account/token", **chosen)
    assert answer.status_code == 200, answer.text
    _, _, rest = answer.text.partition("shoal_d_")
    return "shoal_d_" + rest[:43]
