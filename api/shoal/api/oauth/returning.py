"""Sending the owner's browser back to the app with an answer."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import redirects
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.pages import element, page, paragraph, told
from shoal.api.oauth.words import Line

STATE_ERRORS: Final = "surrogateescape"
"""A state may be any bytes: what is no UTF-8 goes back as it came."""


def answer_url(redirect_uri: str, answer: Mapping[str, str]) -> str:
    """Return a redirect URI with an answer added to its own query, which stays as it is (RFC 6749, 3.1.2, 4.1.2).

    Spaces are written as %20: every decoder reads it, while apps' own ones take `+` for a plus.
    """
    joint = "?" if "?" not in redirect_uri else "" if redirect_uri.endswith(("?", "&")) else "&"
    return redirect_uri + joint + urlencode(answer, quote_via=quote, safe="", errors=STATE_ERRORS)


def answered(
    authority: Authority, language: Language, redirect_uri: str, state: str | None, answer: Mapping[str, str]
) -> Response:
    """Return what sends the browser to the app with an answer, its `state`, and `iss` (RFC 9207).

    Web pages and programs on this machine get a 303. An app is opened from a page with a link: browsers that are
    redirected to an app's scheme leave an empty tab behind, and some don't ask to open the app unless it is clicked.
    """
    whole = {**answer, **({} if state is None else {"state": state}), "iss": authority.issuer}
    url = answer_url(redirect_uri, whole)
    if urlsplit(redirect_uri).scheme in ("https", "http"):
        headers = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        return Response(status_code=303, headers=headers)
    return page(
        language,
        Line.BACK_TO_APP,
        paragraph(Line.APP_OPENS, language),
        element("p", element("a", told(Line.OPEN_APP, language), href=url, class_="button main"), class_="actions"),
        head=element("meta", http_equiv="refresh", content=f"0;url={url}"),
    )


def refused(
    authority: Authority, language: Language, redirect_uri: str, state: str | None, error: OAuthError
) -> Response:
    """Return what tells the app that it was refused (RFC 6749, 4.1.2.1)."""
    return answered(authority, language, redirect_uri, state, error.as_dict())


def form_actions(authority: Authority, redirect_uri: str) -> tuple[str, ...]:
    """Return the CSP sources that a form needs whose answer leads to this redirect.

    Chromium applies form-action to every redirect after a form, also to those of the app's own site: that of Claude
    goes on to `claude:`. So the allowed apps' schemes are among them.
    """
    own = redirects.form_action(redirect_uri)
    if "[" in own:
        # A source can't name an IPv6 address (CSP 3, 2.3.1); this one is of this machine.
        return ("http:",)
    if urlsplit(redirect_uri).scheme != "https":
        return (own,)
    return (own, *(f"{scheme}:" for scheme in authority.settings.app_schemes))
