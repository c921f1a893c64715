"""What an app asks for at /authorize (RFC 6749, 4.1.1; RFC 7636; RFC 8707; RFC 9700, 2.1).

First who asks and where the answer goes: while either is unknown, nothing may be sent anywhere, and the owner is told
on a page. What else is wrong is the app's to hear, at its redirect.

`prompt` is OpenID's and passed over like every other unknown parameter, except for `none`, by which an app asks to be
answered without a page. It is refused with access_denied: the owner is asked every time.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from shoal.api.oauth import clients, redirects
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import DEFAULT_SCOPES, Client, ClientKind, scope_text, scopes_of
from shoal.api.oauth.returning import STATE_ERRORS
from shoal.api.oauth.targets import target_of
from shoal.api.oauth.words import Line
from shoal.core.caller import Scope

QUERY_MAX_CHARS: Final = 32_000
"""A `state` of STATE_MAX_BYTES takes three times as many when all of it is percent-encoded."""
STATE_MAX_BYTES: Final = 4_096
PARAMETERS_MAX: Final = 64
_CLIENT_ID: Final = re.compile(r"[ -~]+")
"""RFC 6749, appendix A.1."""
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""SHA-256 in base64url without padding."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be put to the owner."""

    client_id: str
    redirect_uri: str
    redirect_uri_given: bool
    challenge: str
    scopes: frozenset[Scope]
    state: str | None
    resource: str

    def to_payload(self) -> dict[str, Any]:
        """Return the form in which a handle keeps it."""
        return {
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "redirect_uri_given": self.redirect_uri_given,
            "challenge": self.challenge,
            "scopes": scope_text(self.scopes),
            "state": self.state,
            "resource": self.resource,
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Asked":
        """Return what `to_payload` has written."""
        values: dict[str, Any] = {**payload, "scopes": scopes_of(payload["scopes"])}
        return cls(**values)


class Unanswerable(Exception):
    """There is nowhere to send an answer to: what a page has to tell."""

    def __init__(self, title: Line, mend: Line, *, status: int = 400, detail: str | None = None) -> None:
        super().__init__(title.name)
        self.title = title
        self.mend = mend
        self.status = status
        self.detail = detail


class Refused(Exception):
    """The app is told what is wrong, at its redirect."""

    def __init__(self, client: Client, redirect_uri: str, state: str | None, error: OAuthError) -> None:
        super().__init__(error.description)
        self.client = client
        self.redirect_uri = redirect_uri
        self.state = state
        self.error = error

    @property
    def waits_for_owner(self) -> bool:
        """Whether to sign the owner in before going there.

        Anybody may register any web page. Whoever is led there by a link to this server that was made to fail could
        take that page for ours, so none is gone to on behalf of a stranger (RFC 9700, 4.11.2).
        """
        return self.client.kind is not ClientKind.GIVEN and self.redirect_uri.startswith("https:")


async def read(authority: Authority, query: str) -> tuple[Client, Asked]:
    """Return who asks for what, from the query of a request. Raises Unanswerable, Refused."""
    pairs = _pairs(query)
    counts = Counter(name for name, _ in pairs)
    if counts["client_id"] > 1 or counts["redirect_uri"] > 1:
        raise Unanswerable(Line.UNREADABLE, Line.UNREADABLE_MEND, detail="Send client_id and redirect_uri once.")
    # A parameter without a value counts as absent (RFC 6749, 3.1).
    given = {name: value for name, value in pairs if value}
    client = await _client(authority, given.get("client_id", ""))
    redirect_uri = _redirect(client, given.get("redirect_uri"))
    state = given.get("state") if counts["state"] < 2 else None
    if state is not None and len(state.encode(errors=STATE_ERRORS)) > STATE_MAX_BYTES:
        error = OAuthError(Code.INVALID_REQUEST, f"The state is longer than {STATE_MAX_BYTES} bytes. Send less.")
        raise Refused(client, redirect_uri, None, error)
    try:
        _require_once(counts)
        _require_code_with_pkce(given)
        asked = Asked(
            client_id=client.id,
            redirect_uri=redirect_uri,
            redirect_uri_given="redirect_uri" in given,
            challenge=given["code_challenge"],
            scopes=_scopes(given.get("scope")),
            state=state,
            resource=target_of(authority, given.get("resource")),
        )
    except OAuthError as error:
        raise Refused(client, redirect_uri, state, error) from error
    return client, asked


async def _client(authority: Authority, client_id: str) -> Client:
    if not client_id:
        raise Unanswerable(Line.UNREADABLE, Line.UNREADABLE_MEND, detail="The client_id is missing.")
    if not _CLIENT_ID.fullmatch(client_id):
        detail = "The client_id has characters that no id has."
        raise Unanswerable(Line.UNKNOWN_APP, Line.UNKNOWN_APP_MEND, detail=detail)
    try:
        return await clients.find(authority, client_id)
    except OAuthError as error:
        if error.code in (Code.TEMPORARILY_UNAVAILABLE, Code.SERVER_ERROR):
            raise Unanswerable(Line.NOT_NOW, Line.NOT_NOW_MEND, status=503, detail=error.description) from error
        raise Unanswerable(Line.UNKNOWN_APP, Line.UNKNOWN_APP_MEND, detail=error.description) from error


async def known_still(authority: Authority, asked: Asked) -> Client:
    """Return the client of a request as it is known now, with the redirect that it had then. Raises Unanswerable."""
    client = await _client(authority, asked.client_id)
    if _redirect(client, asked.redirect_uri if asked.redirect_uri_given else None) != asked.redirect_uri:
        raise Unanswerable(Line.WRONG_ADDRESS, Line.WRONG_ADDRESS_MEND)
    return client


def _redirect(client: Client, given: str | None) -> str:
    try:
        return redirects.chosen(client, given)
    except OAuthError as error:
        raise Unanswerable(Line.WRONG_ADDRESS, Line.WRONG_ADDRESS_MEND, detail=error.description) from error


def _pairs(query: str) -> list[tuple[str, str]]:
    if len(query) > QUERY_MAX_CHARS:
        detail = f"The query is longer than {QUERY_MAX_CHARS} characters."
        raise Unanswerable(Line.UNREADABLE, Line.UNREADABLE_MEND, status=414, detail=detail)
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors=STATE_ERRORS)
    except ValueError as error:
        detail = f"The query has more than {PARAMETERS_MAX} parameters."
        raise Unanswerable(Line.UNREADABLE, Line.UNREADABLE_MEND, detail=detail) from error


def _require_once(counts: Counter[str]) -> None:
    if counts["resource"] > 1:
        raise OAuthError(Code.INVALID_TARGET, "Name one resource: this server has only one.")
    if any(count > 1 for count in counts.values()):
        raise OAuthError(Code.INVALID_REQUEST, "A parameter is there twice. Send each once.")


def _require_code_with_pkce(given: Mapping[str, str]) -> None:
    if "response_type" not in given:
        raise OAuthError(Code.INVALID_REQUEST, "The response_type is missing. Send response_type=code.")
    if given["response_type"] != "code":
        raise OAuthError(Code.UNSUPPORTED_RESPONSE_TYPE, "Only response_type=code is served.")
    if given.get("response_mode", "query") != "query":
        raise OAuthError(Code.INVALID_REQUEST, "Only response_mode=query is served.")
    if "code_challenge" not in given:
        raise OAuthError(Code.INVALID_REQUEST, "The code_challenge is missing. PKCE with S256 is required.")
    # Without a method, plain is meant (RFC 7636, 4.3): the challenge would be the secret itself.
    if given.get("code_challenge_method") != "S256":
        raise OAuthError(Code.INVALID_REQUEST, "Send code_challenge_method=S256: no other is served.")
    if not _CHALLENGE.fullmatch(given["code_challenge"]):
        raise OAuthError(Code.INVALID_REQUEST, "The code_challenge is no SHA-256 in base64url: 43 characters.")
    if given.get("prompt", "").split() == ["none"]:
        raise OAuthError(Code.ACCESS_DENIED, "The owner is asked each time, so prompt=none can not be answered.")


def _scopes(given: str | None) -> frozenset[Scope]:
    if given is None or not given.strip():
        return frozenset(DEFAULT_SCOPES)
    scopes = scopes_of(given)
    if not scopes:
        raise OAuthError(Code.INVALID_SCOPE, "None of these scopes is known. See scopes_supported in the metadata.")
    if not scopes - {Scope.SYNC}:
        raise OAuthError(Code.INVALID_SCOPE, "sync reaches what memory:read and memory:write reach. Ask for one too.")
    return scopes
