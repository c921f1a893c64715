"""The page on which the owner signs in, and where one may go from it."""

import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth.asked import QUERY_MAX_CHARS
from shoal.api.oauth.identity import Reason, SignInRefused
from shoal.api.oauth.pages import (
    Html,
    button,
    element,
    form,
    hidden,
    notice,
    page,
    paragraph,
    told,
)
from shoal.api.oauth.paths import ACCOUNT, AUTHORIZE, LOGIN
from shoal.api.oauth.words import Line

OWNER_KEY_COMMAND: Final = "shoal owner-key"
_NEXT: Final = re.compile(rf"{AUTHORIZE}\?[!-~]{{0,{QUERY_MAX_CHARS}}}")
_SECRET_MAX_CHARS: Final = "1024"  # noqa: S105 - a number


def next_path(given: str) -> str:
    """Return where to go after signing in: what was asked if it is a page of ours, else the account page.

    Never another host: it is /authorize with a query, or /account.
    """
    return given if _NEXT.fullmatch(given) else ACCOUNT


def login_page(
    language: Language,
    next_: str,
    *,
    refused: Html | None = None,
    status: int = 200,
    form_actions: Sequence[str] = (),
    retry_after_s: int | None = None,
) -> Response:
    """Return the page. `refused` says why the attempt before has failed."""
    about = Line.SIGN_IN_FOR_ACCOUNT if next_ == ACCOUNT else Line.SIGN_IN_FOR_APP
    field = element(
        "div",
        element("label", told(Line.SECRET, language), for_="secret"),
        element(
            "input",
            type="password",
            id="secret",
            name="secret",
            autocomplete="current-password",
            required=True,
            autofocus=True,
            maxlength=_SECRET_MAX_CHARS,
            aria_describedby="about-secret",
        ),
        class_="field",
    )
    command = element("code", OWNER_KEY_COMMAND)
    return page(
        language,
        Line.SIGN_IN,
        paragraph(about, language),
        refused or "",
        form(
            LOGIN,
            hidden("next", next_),
            field,
            element("p", told(Line.SECRET_ABOUT, language, command=command), class_="soft", id="about-secret"),
            element("div", button(Line.SIGN_IN, language, class_="main"), class_="actions"),
        ),
        status=status,
        form_actions=form_actions,
        retry_after_s=retry_after_s,
    )


def why(refused: SignInRefused, language: Language) -> Html:
    """Return why nobody was signed in, and when to try again."""
    minutes = str(-(-refused.retry_after_s // 60))
    if refused.reason is Reason.WRONG:
        line = Line.WRONG_SECRET_WAIT if refused.retry_after_s else Line.WRONG_SECRET
    else:
        line = Line.LOCKED if refused.reason is Reason.LOCKED else Line.ONLY_KEY
    return notice(line, language, minutes=minutes)
