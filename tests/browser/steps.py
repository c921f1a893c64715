"""What the owner does in a browser, and what of it a test wants to know."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from playwright.sync_api import ConsoleMessage, Page
from tests.edge.edge import OWNER_KEY, PLAIN

from shoal.api.messages import Language
from shoal.api.oauth.words import Line, said

SCREENSHOTS: Final = Path(__file__).parents[2] / "build" / "screenshots"
VERIFIER: Final = "a-verifier-of-the-tests-that-is-long-enough-for-it"
NARROW: Final = {"width": 320, "height": 640}
"""CSS pixels: the smallest phone, and WCAG's measure for reflow (2.2, 1.4.10)."""


def register(server: str, redirect_uri: str, name: str = "A page elsewhere", **more: Any) -> str:
    """Register a public client and return its id."""
    client = {"client_name": name, "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none", **more}
    answer = httpx.post(f"{server}/register", json=client, **PLAIN)
    assert answer.is_success, answer.text
    return answer.json()["client_id"]


def authorize_url(server: str, client_id: str, redirect_uri: str, **more: str) -> str:
    """Return where an app sends the owner."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": "memory:read memory:write",
        "state": "a-state",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **more,
    }
    return f"{server}/authorize?{urlencode(asked)}"


def sign_in(page: Page, language: Language = Language.ENGLISH) -> None:
    """Type the owner's key into the login page, and send it."""
    page.get_by_label(said(Line.SECRET, language)).fill(OWNER_KEY)
    page.get_by_role("button", name=said(Line.SIGN_IN, language), exact=True).click()


def allow(page: Page, language: Language = Language.ENGLISH) -> None:
    """Let the app in, as the consent page proposes it."""
    page.get_by_role("button", name=said(Line.ALLOW, language), exact=True).click()


def overflow(page: Page) -> list[str]:
    """Return the elements that stand out of the page at its right side, or that hold more than they show."""
    return page.evaluate(
        """() => {
            const wide = document.documentElement.clientWidth;
            const standsOut = (one) => one.getBoundingClientRect().right > wide + 0.5;
            const holdsMore = (one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1;
            const all = [...document.querySelectorAll('body *')];
            return all.filter((one) => standsOut(one) || holdsMore(one)).map((one) => one.outerHTML.slice(0, 200));
        }"""
    )


def picture(page: Page, name: str) -> None:
    """Keep what the page looks like, for people."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@dataclass
class Console:
    """What Chromium complains about while a page is shown: blocked by a policy, failed to load, thrown by a script."""

    complaints: list[str] = field(default_factory=list[str])

    def watch(self, page: Page) -> None:
        """Listen to a tab from now on."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(json.dumps([message.text, message.location]))
