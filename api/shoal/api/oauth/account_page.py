"""The account page: connected apps, tokens for devices and scripts, the passphrase, signing out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import handles, passphrase
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.choices import Offer, fields, offered, words
from shoal.api.oauth.connected import COUNTED_MAX, Connected, Write, connected
from shoal.api.oauth.pages import (
    Html,
    Part,
    button,
    element,
    form,
    hidden,
    isolated,
    joined,
    page,
    paragraph,
    plain,
    told,
)
from shoal.api.oauth.paths import ACCOUNT, ACCOUNT_PASSPHRASE, ACCOUNT_REVOKE, ACCOUNT_TOKEN, LOGOUT
from shoal.api.oauth.records import CLIENT_SCOPES, NAME_MAX_CHARS, GrantKind
from shoal.api.oauth.sessions import Session
from shoal.api.oauth.words import Line
from shoal.core.times import iso, zone_named
from shoal.schema.limits import SPACE_MAX_CHARS

PURPOSE: Final = "account"
"""What the handle of this page is for: one for all of its forms, since each of them leads to a new page."""
_PASSPHRASE_MAX_CHARS: Final = str(passphrase.MAX_CHARS)


@dataclass(frozen=True, slots=True)
class Said:
    """What the page says first, about the form before."""

    notice: Html
    status: int = 200
    token_form: Mapping[str, str] | None = None
    """What was given for a token that could not be made."""


async def shown(authority: Authority, session: Session, language: Language, said: Said | None = None) -> Response:
    """Return the page with a new handle for its forms."""
    found, more = await connected(authority)
    offer = await offered(authority, frozenset(CLIENT_SCOPES))
    handle = hidden("handle", await handles.show(authority, session, PURPOSE, {"offer": offer.to_payload()}))
    zone = zone_named(authority.settings.default_time_zone)
    parts: list[Part] = [_card(each, handle, language, zone) for each in found]
    if not found:
        address = element("code", authority.resource)
        parts.append(paragraph(Line.NO_APPS, language, address=address))
    if more:
        parts.append(paragraph(Line.MORE_APPS, language, class_="soft", count=str(len(found))))
    return page(
        language,
        Line.ACCOUNT,
        said.notice if said else "",
        *parts,
        _token_form(offer, handle, language, said.token_form if said else None),
        _passphrase_form(handle, language, is_set=await passphrase.is_set(authority)),
        _sign_out(handle, language),
        status=said.status if said else 200,
    )


def token_page(authority: Authority, language: Language, name: str, token: str) -> Response:
    """Return the page that shows a new token, this once."""
    return page(
        language,
        Line.TOKEN_TITLE,
        element("p", told(Line.TOKEN_MADE, language, name=isolated(name))),
        element("code", token, class_="secret"),
        paragraph(Line.TOKEN_ONCE, language),
        paragraph(Line.TOKEN_ADDRESS, language, address=element("code", authority.resource)),
        element("p", element("a", told(Line.ACCOUNT, language), href=ACCOUNT)),
    )


def _card(each: Connected, handle: Html, language: Language, zone: ZoneInfo) -> Html:
    grant = each.grant
    name = grant.name if not grant.device else f"{grant.name} ({grant.device})"
    rows: list[tuple[Line, Part]] = [(Line.MAY, _list(words(grant.reach, language)))]
    if each.hosts:
        rows.append((Line.ANSWERS_TO, _list([isolated(host) for host in each.hosts])))
    rows.append((Line.SINCE, _moment(grant.created_at, zone)))
    used = told(Line.NEVER_USED, language) if grant.used_at is None else _day(grant.used_at, zone)
    rows.append((Line.LAST_USED, used))
    until = told(Line.NO_END, language) if grant.expires_at is None else _moment(grant.expires_at, zone)
    rows.append((Line.UNTIL, until))
    rows.append((Line.WRITES, _writes(each, language, zone)))
    revoke = element(
        "button",
        told(Line.REVOKE, language),
        type="submit",
        class_="danger",
        aria_label=plain(Line.REVOKE_NAMED, language, name=name[:NAME_MAX_CHARS]),
    )
    return element(
        "section",
        element("h3", isolated(name)),
        paragraph(Line.DEVICE, language, class_="soft") if grant.kind is GrantKind.DEVICE else "",
        element("dl", *(joined((element("dt", told(line, language)), element("dd", part))) for line, part in rows)),
        form(ACCOUNT_REVOKE, handle, hidden("grant", grant.id), revoke),
        class_="card",
    )


def _writes(each: Connected, language: Language, zone: ZoneInfo) -> Html:
    if not each.writes:
        return told(Line.NO_WRITES, language)
    counted = Line.WRITES_AT_LEAST if each.writes >= COUNTED_MAX else Line.WRITES_LAST
    lines = [_write(write, language, zone) for write in each.last]
    return joined((told(counted, language, count=str(each.writes)), _list(lines)))


def _write(write: Write, language: Language, zone: ZoneInfo) -> Html:
    return told(
        Line.WRITE_AT,
        language,
        time=_moment(write.at, zone),
        action=_action(write.action, language),
        space=isolated(write.space, SPACE_MAX_CHARS),
        count=str(write.memories),
    )


_ACTIONS: Final = {
    "store": Line.ACTION_STORE,
    "update": Line.ACTION_UPDATE,
    "delete": Line.ACTION_DELETE,
    "purge": Line.ACTION_PURGE,
    "revive": Line.ACTION_REVIVE,
}


def _action(action: str, language: Language) -> Part:
    return told(_ACTIONS[action], language) if action in _ACTIONS else isolated(action)


def _token_form(offer: Offer, handle: Html, language: Language, given: Mapping[str, str] | None) -> Html:
    header = element("code", "Authorization: Bearer")
    name = element(
        "input",
        type="text",
        id="token-name",
        name="name",
        required=True,
        maxlength=str(NAME_MAX_CHARS),
        autocomplete="off",
        value=(given or {}).get("name", ""),
    )
    return element(
        "details",
        element("summary", told(Line.MAKE_TOKEN, language)),
        paragraph(Line.TOKEN_ABOUT, language, class_="soft", header=header),
        form(
            ACCOUNT_TOKEN,
            handle,
            element("div", element("label", told(Line.TOKEN_NAME, language), for_="token-name"), name, class_="field"),
            fields(offer, language, given),
            element("div", button(Line.MAKE, language, class_="main"), class_="actions"),
        ),
        open=given is not None,
    )


def _passphrase_form(handle: Html, language: Language, *, is_set: bool) -> Html:
    def field(name: str, line: Line) -> Html:
        typed = element(
            "input",
            type="password",
            id=name,
            name=name,
            autocomplete="new-password",
            minlength=str(passphrase.MIN_CHARS),
            maxlength=_PASSPHRASE_MAX_CHARS,
            required=True,
            aria_describedby="about-passphrase",
        )
        return element("div", element("label", told(line, language), for_=name), typed, class_="field")

    about = told(Line.PASSPHRASE_ABOUT, language, count=str(passphrase.MIN_CHARS))
    removing = form(
        ACCOUNT_PASSPHRASE,
        handle,
        hidden("remove", "1"),
        element("div", button(Line.REMOVE_PASSPHRASE, language, class_="danger"), class_="actions"),
    )
    return element(
        "section",
        element("h2", told(Line.PASSPHRASE, language)),
        paragraph(Line.PASSPHRASE_SET if is_set else Line.PASSPHRASE_NONE, language),
        form(
            ACCOUNT_PASSPHRASE,
            handle,
            field("passphrase", Line.NEW_PASSPHRASE),
            field("again", Line.PASSPHRASE_AGAIN),
            element("p", about, class_="soft", id="about-passphrase"),
            element("div", button(Line.SET_PASSPHRASE, language, class_="plain"), class_="actions"),
        ),
        removing if is_set else "",
    )


def _sign_out(handle: Html, language: Language) -> Html:
    return element(
        "section",
        element("h2", told(Line.SIGNING_OUT, language)),
        form(
            LOGOUT,
            handle,
            button(Line.SIGN_OUT, language, class_="plain"),
            " ",
            button(Line.SIGN_OUT_EVERYWHERE, language, name="everywhere", value="1", class_="plain"),
            class_="actions",
        ),
    )


def _list(lines: list[Html]) -> Html:
    return element("ul", *(element("li", line) for line in lines))


def _moment(ms: int, zone: ZoneInfo) -> Html:
    return element("time", f"{_local(ms, zone):%Y-%m-%d %H:%M %Z}", datetime=iso(ms))


def _day(ms: int, zone: ZoneInfo) -> Html:
    return element("time", f"{_local(ms, zone):%Y-%m-%d}", datetime=iso(ms))


def _local(ms: int, zone: ZoneInfo) -> datetime:
    # By way of `iso`, which takes any number to the nearest time that can be written.
    return datetime.fromisoformat(iso(ms)).astimezone(zone)
