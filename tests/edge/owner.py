"""The owner, for apps that open the browser themselves: they hand over a URL, and are handed one back."""

import html
import re
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

import httpx
from tests.edge.edge import OWNER_KEY
from tests.edge.oauth import Flow

_REFRESH: Final = re.compile(r'<meta http-equiv="refresh" content="0;url=([^"]*)"')


class Owner:
    """Signs in where that is asked for, and lets apps in: `with Owner(rig.url) as owner`."""

    def __init__(self, url: str) -> None:
        self._flow = Flow(url, OWNER_KEY)
        self.asked: list[dict[str, str]] = []
        """The parameters of all that the owner was asked, oldest first."""
        self.allows: Mapping[str, str] | None = None
        """What to allow, scopes by space; None = what is asked for."""
        self.syncs = False
        """Whether to let apps sync that ask for it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flow.close()

    def lets_in(self, url: str) -> str:
        """Open an authorization request, allow it, and return where the browser is sent."""
        self.asked.append(parameters(url))
        page = self._flow.past_sign_in(self._flow.browser.get(url))
        return sent_to(self._flow.decide(page, self.allows, **({"sync": "1"} if self.syncs else {})))

    def scopes_asked(self) -> list[str]:
        """Return the scopes of all that was asked, oldest first."""
        return [one.get("scope", "") for one in self.asked]

    def ends_all(self) -> None:
        """End the one app that the account page shows."""
        page = self._flow.browser.get("/account")
        assert self._flow.browser.submit(page, "/account/revoke").status_code == 303


def parameters(url: str) -> dict[str, str]:
    """Return the parameters of a URL, each of which must be there once."""
    values = parse_qs(urlsplit(url).query, strict_parsing=True)
    assert all(len(each) == 1 for each in values.values()), url
    return {name: value for name, (value,) in values.items()}


def sent_to(answer: httpx.Response) -> str:
    """Return where an answer sends the browser: at once, or from a page that opens an app."""
    if answer.status_code == 303:
        return answer.headers["location"]
    found = _REFRESH.search(answer.text)
    assert answer.status_code == 200, answer.text
    assert found, answer.text
    return html.unescape(found[1])
