"""Finding out that a visitor is the owner: by the key, by the passphrase, or by Cloudflare Access."""

from enum import StrEnum
from typing import Final

from starlette.datastructures import Headers

from shoal.api.oauth import access, attempts, owner_key, passphrase, sessions
from shoal.api.oauth.attempts import Locked, Way
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.sessions import Method, Session
from shoal.schema.errors import ShoalError

_METHODS: Final = {Way.KEY: Method.KEY, Way.PASSPHRASE: Method.PASSPHRASE}


class Reason(StrEnum):
    """Why nobody was signed in."""

    WRONG = "wrong"
    """Neither the key nor the passphrase."""
    LOCKED = "locked"
    """Not looked at: this network has failed too often."""
    ONLY_KEY = "only_key"
    """Not looked at: passphrases have failed too often, from all networks together."""


_MESSAGES: Final = {
    Reason.WRONG: ("This is neither the owner key nor the passphrase.", "Try again, or use the owner key."),
    Reason.LOCKED: ("Signing in has failed too often from this network.", "Wait, then try again."),
    Reason.ONLY_KEY: ("Passphrases have failed too often.", "Use the owner key, or wait."),
}


class SignInRefused(ShoalError):
    """Nobody was signed in. `retry_after_s`: when another attempt from here will be looked at; 0 = at once."""

    code = "sign_in_refused"
    status = 403

    def __init__(self, reason: Reason, retry_after_s: int) -> None:
        super().__init__(*_MESSAGES[reason], reason=str(reason), retry_after_s=retry_after_s)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def looked_at(self) -> bool:
        """Whether the secret was compared at all; else the answer is 429."""
        return self.reason is Reason.WRONG


async def sign_in(authority: Authority, given: str) -> str:
    """Begin a session for who gives the key or the passphrase; return its cookie's value.

    The form of what is given decides which of the two it is. Raises SignInRefused, and passphrase.PassphraseUnusable.
    """
    way = Way.PASSPHRASE if owner_key.normalise(given) is None else Way.KEY
    try:
        wait_ms = await attempts.claim(authority, way)
    except Locked as locked:
        raise SignInRefused(Reason.ONLY_KEY if locked.everywhere else Reason.LOCKED, _seconds(locked.wait_ms)) from None
    if way is Way.KEY:
        hashed = None
        right = owner_key.is_owner_key(given, authority.settings.owner_key_sha256)
    else:
        hashed = await passphrase.check(authority, given)
        right = hashed is not None
    if not right:
        raise SignInRefused(Reason.WRONG, _seconds(wait_ms))
    await attempts.forgive(authority, way)
    cookie = await sessions.begin(authority, _METHODS[way])
    # A change ends the sessions that it finds; one that came before this session had begun is found here.
    if hashed is not None and not await passphrase.is_still(authority, hashed):
        raise SignInRefused(Reason.WRONG, _seconds(wait_ms))
    return cookie


async def current(authority: Authority, headers: Headers) -> Session | None:
    """Return the session that a request comes in: its cookie's, else that of Cloudflare Access where it is set up."""
    return await sessions.current(authority, headers) or await access.current(authority, headers)


def _seconds(wait_ms: int) -> int:
    return -(-wait_ms // 1000)
