"""The page on which the owner decides about an app."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import handles, redirects, returning
from shoal.api.oauth.asked import Asked
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.choices import ChoiceRefused, fields, offered, refusal, scope_words
from shoal.api.oauth.pages import (
    Html,
    button,
    element,
    form,
    hidden,
    isolated,
    joined,
    notice,
    page,
    paragraph,
    told,
)
from shoal.api.oauth.paths import ACCOUNT, CONSENT
from shoal.api.oauth.records import Client, ClientKind
from shoal.api.oauth.sessions import Session
from shoal.api.oauth.words import Line

PURPOSE: Final = "consent"
"""What the handles of these forms are for."""
ALLOW: Final = "allow"
"""The `decision` that lets an app in; everything else doesn't."""
DENY: Final = "deny"
HOST_MAX_CHARS: Final = 253
"""DNS has no longer names (RFC 1035, 2.3.4), so no end of one is left out."""


async def shown(
    authority: Authority,
    session: Session,
    client: Client,
    asked: Asked,
    language: Language,
    *,
    given: Mapping[str, str] | None = None,
    refused: ChoiceRefused | None = None,
) -> Response:
    """Return the page with a new handle, which holds the whole request.

    `given` and `refused`: what was chosen before, and why it could not be followed.
    """
    offer = await offered(authority, asked.scopes)
    payload = {"asked": asked.to_payload(), "offer": offer.to_payload()}
    handle = await handles.show(authority, session, PURPOSE, payload)
    account = element("a", told(Line.ACCOUNT, language), href=ACCOUNT)
    return page(
        language,
        Line.CONSENT,
        refusal(refused, language) if refused else "",
        element("p", told(Line.WANTS_IN, language, name=element("strong", isolated(client.name)))),
        paragraph(Line.NAME_PROVES_NOTHING, language, class_="soft") if client.kind is not ClientKind.GIVEN else "",
        _destination(asked.redirect_uri, language),
        element("p", _how_known(client, language), class_="soft"),
        form(
            CONSENT,
            # Enter, typed in a field, presses a form's first button: this one does nothing (HTML, 4.10.21.2).
            element("button", type="submit", disabled=True, hidden=True),
            hidden("handle", handle),
            paragraph(Line.ASKED, language, scopes=scope_words(asked.scopes, language)),
            fields(offer, language, given),
            element(
                "div",
                button(Line.ALLOW, language, name="decision", value=ALLOW, class_="main"),
                button(Line.DENY, language, name="decision", value=DENY, class_="plain"),
                class_="actions",
            ),
        ),
        element("p", told(Line.CAN_BE_REVOKED, language, link=account), class_="soft"),
        status=400 if refused else 200,
        form_actions=returning.form_actions(authority, asked.redirect_uri),
    )


def _destination(redirect_uri: str, language: Language) -> Html:
    """Return where the answer goes: the one thing about an app that can't be made up."""
    scheme = urlsplit(redirect_uri).scheme
    if scheme not in ("https", "http"):
        link = element("code", f"{scheme}:")
        return joined(
            (
                element("p", told(Line.ANSWER_GOES_TO_APP, language, scheme=link), class_="host"),
                notice(Line.APP_ON_DEVICE, language),
            )
        )
    host = element("p", isolated(redirects.host_shown(redirect_uri), HOST_MAX_CHARS), class_="host")
    warning = notice(Line.THIS_COMPUTER, language) if redirects.is_loopback(redirect_uri) else ""
    return joined((paragraph(Line.ANSWER_GOES_TO, language), host, warning))


def _how_known(client: Client, language: Language) -> Html:
    if client.kind is ClientKind.REGISTERED:
        return told(Line.KNOWN_REGISTERED, language)
    if client.kind is ClientKind.GIVEN:
        return told(Line.KNOWN_GIVEN, language)
    host = element("strong", isolated(client.id.removeprefix("https://").partition("/")[0], HOST_MAX_CHARS))
    return told(Line.KNOWN_DOCUMENT, language, host=host)
