"""The exchange of an authorization code for tokens (RFC 6749, 4.1.3; PKCE: RFC 7636, 4.6; resource: RFC 8707, 2.2)."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from shoal.api.oauth import secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.forms import required
from shoal.api.oauth.grants import Because, revoking
from shoal.api.oauth.records import Client, living, scopes_of
from shoal.api.oauth.targets import target_of
from shoal.api.oauth.tokens import Basis, TokenAnswer, ending_unless, issue, reuse_refused
from shoal.core.protocols import Statement

_EXCHANGE_BYTES: Final = 16
"""Random bytes of an exchange's name, by which a code shows who was first."""
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CLAIMED: Final = "exists (select 1 from oauth_code where sha256 = ?1 and spent_by = ?2)"


async def exchange(authority: Authority, client: Client, form: Mapping[str, str]) -> TokenAnswer:
    """Answer the grant type authorization_code for an authenticated client. Raises OAuthError.

    A code that comes a second time ends its grant, whoever shows it. One that another client shows, or that comes with
    another redirect_uri or resource, stays as it is; one that comes with a wrong verifier is used up.
    """
    code, verifier = required(form, "code"), required(form, "code_verifier")
    if not secrets.is_well_formed(code, secrets.Secret.CODE):
        raise _not_good()
    digest = sha256(code)
    row = await _known(authority, digest)
    if row is None:
        raise _not_good()
    if row["spent_by"] is not None:
        await authority.database.batch([revoking(row["grant_id"], authority.clock(), Because.CODE_REUSED)])
        raise reuse_refused()
    if not row["alive"] or row["client_id"] != client.id:
        raise _not_good()
    if not _same_redirect(row, form.get("redirect_uri", "")):
        raise OAuthError(Code.INVALID_GRANT, "The redirect_uri is not that of the authorization request.")
    name = authority.random(_EXCHANGE_BYTES).hex()
    claim = Statement("update oauth_code set spent_by = ?2 where sha256 = ?1 and spent_by is null", (digest, name))
    scopes = scopes_of(row["scopes"])
    basis = Basis(
        grant_id=row["grant_id"],
        grant_expires_at=row["grant_expires_at"],
        client_id=client.id,
        scopes=scopes,
        condition=_CLAIMED,
        bound=(digest, name),
        reused=Because.CODE_REUSED,
    )
    if not verifies(verifier, row["challenge"]):
        await authority.database.batch([claim, ending_unless(basis, authority.clock())])
        raise OAuthError(Code.INVALID_GRANT, "The code_verifier does not fit the code_challenge. Connect again.")
    if target_of(authority, form.get("resource")) != row["resource"]:
        raise OAuthError(Code.INVALID_TARGET, "The code is for another resource.")
    return await issue(authority, basis, scopes, claim)


def verifies(verifier: str, challenge: str) -> bool:
    """Say whether a PKCE verifier fits an S256 challenge."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(made, challenge.encode())


def _same_redirect(row: Mapping[str, Any], sent: str) -> bool:
    return sent == row["redirect_uri"] or (not sent and not row["redirect_uri_given"])


async def _known(authority: Authority, digest: str) -> Mapping[str, Any] | None:
    rows: Sequence[Mapping[str, Any]] = await authority.database.query(
        "select c.grant_id, c.client_id, c.redirect_uri, c.redirect_uri_given, c.challenge, c.scopes, c.resource,"
        " c.spent_by, g.expires_at as grant_expires_at,"
        f" c.expires_at > ?2 and {living('?2')} as alive"
        " from oauth_code as c join oauth_grant as g on g.id = c.grant_id where c.sha256 = ?1",
        (digest, authority.clock()),
    )
    return rows[0] if rows else None


def _not_good() -> OAuthError:
    return OAuthError(Code.INVALID_GRANT, "The code is unknown, expired or of another client. Connect again.")
