"""The token endpoint of an edge: exchange a code, refresh, revoke (RFC 6749, RFC 7009). A public client, with PKCE."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.local.sync.asking import Answer, again, ask, error_of, host_of, shown
from shoal.local.sync.vault import TOKEN_PATTERN, Client, Tokens
from shoal.schema.errors import EdgeUnreachable, LinkBroken, ShoalError

LASTS_S: Final = 3_600
"""How long an access token is taken to last where the answer does not say (RFC 6749, 5.1)."""


class Granted(BaseModel):
    """A successful answer of the token endpoint (RFC 6749, 5.1)."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    access_token: str = Field(pattern=TOKEN_PATTERN, repr=False)
    token_type: str = Field(pattern="^[Bb]earer$")
    expires_in: int = Field(default=LASTS_S, ge=0)
    refresh_token: str | None = Field(default=None, pattern=TOKEN_PATTERN, repr=False)
    scope: str | None = None
    """None = what was asked for."""

    def tokens(self, now_ms: int, before: str | None = None) -> Tokens:
        """Return them as they are kept; `before` is the refresh token that stays in use where no other came."""
        return Tokens(
            access_token=self.access_token,
            refresh_token=self.refresh_token or before,
            expires_at=now_ms + self.expires_in * 1000,
        )


async def exchange(http: httpx.AsyncClient, client: Client, code: str, verifier: str, redirect_uri: str) -> Granted:
    """Exchange an authorization code. Raises LinkBroken, EdgeUnreachable, EdgeBusy."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
        "resource": client.resource,
    }
    return await _granted(http, client, form)


async def refresh(http: httpx.AsyncClient, client: Client, token: str) -> Granted:
    """Exchange a refresh token for the next tokens. Raises LinkBroken, EdgeUnreachable, EdgeBusy."""
    return await _granted(
        http, client, {"grant_type": "refresh_token", "refresh_token": token, "resource": client.resource}
    )


async def revoke(http: httpx.AsyncClient, client: Client, token: str) -> None:
    """Give back a token and with it all that the edge has allowed this device. Raises ShoalError where that failed."""
    if client.revocation_endpoint is None:
        raise EdgeUnreachable("The edge takes no tokens back.", "Remove the device on its account page.")
    answer = await _post(http, client, client.revocation_endpoint, {"token": token})
    if answer.status != HTTPStatus.OK:
        raise _error(answer, client.revocation_endpoint)


async def _granted(http: httpx.AsyncClient, client: Client, form: Mapping[str, str]) -> Granted:
    answer = await _post(http, client, client.token_endpoint, form)
    if answer.status != HTTPStatus.OK:
        raise _error(answer, client.token_endpoint)
    try:
        return Granted.model_validate_json(answer.body)
    except ValidationError:
        # Not chained: its text could repeat tokens.
        raise EdgeUnreachable(
            f"What answers at {host_of(client.token_endpoint)} hands out no tokens.",
            "Look whether a proxy or this network's login page is in the way.",
        ) from None


async def _post(http: httpx.AsyncClient, client: Client, url: str, form: Mapping[str, str]) -> Answer:
    return await ask(http, "POST", url, form={**form, "client_id": client.client_id})


def _error(answer: Answer, endpoint: str) -> ShoalError:
    """Return what a refusal means (RFC 6749, 5.2): whatever it says, asking the same again would not help."""
    found = answer.json()
    refused = answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)
    if not refused or not isinstance(found, dict) or not isinstance(found.get("error"), str):
        return error_of(answer, endpoint)
    origin = endpoint[: endpoint.index(host_of(endpoint))] + host_of(endpoint)
    said = shown(found.get("error_description")) or shown(found["error"])
    return LinkBroken(f"{host_of(endpoint)} lets this device in no more. {said}", again(origin))
