"""The passphrase that the owner may choose beside the key: which are taken, and how one is kept.

Kept is PBKDF2-HMAC-SHA-256 (RFC 8018, 5.2) with 600,000 iterations, the number of OWASP's Password Storage Cheat Sheet.
A Worker may run 100,000 a call, so calls are chained: the first is PBKDF2 with the salt, each next one PBKDF2 of the
same passphrase with the salt and what the call before gave. Inside, PBKDF2 goes on in the same way: the passphrase keys
every HMAC, and each is made of the one before. So no call can begin before the last has ended, and a guess costs all of
them; with one round it is plain PBKDF2. The numbers stand beside the hash and are those that it is checked with, so
that later versions may take more.
"""

import hmac
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shoal.api.oauth import owner_key
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.ports import Cryptography
from shoal.api.oauth.sessions import Session, ending_all
from shoal.api.oauth.weak_passphrases import is_weak
from shoal.core.protocols import Row, Statement
from shoal.schema.errors import InvalidInput, ShoalError

MIN_CHARS: Final = 14
MAX_CHARS: Final = 256
SCHEME: Final = "pbkdf2-sha256"
ITERATIONS: Final = 100_000
"""A call; production refuses more."""
ROUNDS: Final = 6
"""Calls in a chain."""
ROUNDS_MAX: Final = 60
"""What a stored hash may ask for: ten times as much takes a Worker about a second."""
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32


class Reason(StrEnum):
    """Why a passphrase is not taken."""

    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    COMMON = "common"
    LIKE_A_KEY = "like_a_key"
    UNREADABLE = "unreadable"


_MESSAGES: Final = {
    Reason.TOO_SHORT: (
        f"The passphrase has fewer than {MIN_CHARS} characters.",
        "Take a longer one: four or more words that don't belong together.",
    ),
    Reason.TOO_LONG: (f"The passphrase has more than {MAX_CHARS} characters.", "Take a shorter one."),
    Reason.COMMON: (
        "This passphrase is among the first that are guessed.",
        "Take words that don't belong together, known to nobody else.",
    ),
    Reason.LIKE_A_KEY: (
        "This passphrase looks like an owner key.",
        "Add a character that no key has, such as a full stop.",
    ),
    Reason.UNREADABLE: ("The passphrase holds a control character or a broken one.", "Type it instead of pasting it."),
}
_MESSAGES_ZH: Final = {
    Reason.TOO_SHORT: (f"口令少于 {MIN_CHARS} 个字符。", "请换一个更长的：四个以上互不相关的词。"),
    Reason.TOO_LONG: (f"口令超过 {MAX_CHARS} 个字符。", "请换一个短一些的。"),
    Reason.COMMON: ("这个口令很容易被猜到。", "请用互不相关、别人不知道的词。"),
    Reason.LIKE_A_KEY: ("这个口令看起来像所有者密钥。", "请加一个密钥里没有的字符，例如句号。"),
    Reason.UNREADABLE: ("口令中有控制字符或损坏的字符。", "请手动输入，不要粘贴。"),
}


class PassphraseRefused(InvalidInput):
    """A passphrase that is not taken; the one from before still holds."""

    code = "passphrase_refused"

    def __init__(self, reason: Reason) -> None:
        super().__init__(*_MESSAGES[reason], reason=str(reason))
        self.reason = reason

    @property
    def chinese(self) -> tuple[str, str]:
        """The message and the mend in Chinese."""
        return _MESSAGES_ZH[self.reason]


class PassphraseUnusable(ShoalError):
    """The stored hash was made in a way that this version doesn't know or may not repeat."""

    code = "passphrase_unusable"
    status = 503

    def __init__(self) -> None:
        super().__init__(
            "The passphrase was set by another version of shoal, which kept it in a way that this one can't check.",
            "Sign in with the owner key and set the passphrase anew.",
        )


def accepted(text: str) -> bytes:
    """Return the bytes of a passphrase that may be set. Raises PassphraseRefused."""
    known = _bytes(text)
    if isinstance(known, Reason):
        raise PassphraseRefused(known)
    if owner_key.normalise(known.decode()) is not None:
        # At the login page it would be taken for a key, so it could never be used.
        raise PassphraseRefused(Reason.LIKE_A_KEY)
    if is_weak(known.decode()):
        raise PassphraseRefused(Reason.COMMON)
    return known


def _bytes(text: str) -> bytes | Reason:
    """Return what is hashed: NFKC, trimmed, UTF-8, so that keyboards that compose differently agree."""
    if len(text) > 4 * MAX_CHARS:
        # NFKC joins up to a few characters into one; what is longer than this is not worth the work.
        return Reason.TOO_LONG
    typed = unicodedata.normalize("NFKC", text).strip()
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in typed):
        return Reason.UNREADABLE
    if len(typed) < MIN_CHARS:
        return Reason.TOO_SHORT
    return Reason.TOO_LONG if len(typed) > MAX_CHARS else typed.encode()


async def stretch(cryptography: Cryptography, secret: bytes, salt: bytes, iterations: int, rounds: int) -> bytes:
    """Return the hash of a chain of calls: HASH_BYTES."""
    found = b""
    for _ in range(rounds):
        found = await cryptography.pbkdf2_sha256(secret, salt + found, iterations)
    return found


_SET: Final = """
insert into owner_passphrase (one, scheme, iterations, rounds, salt, hash, set_at) values (1, ?1, ?2, ?3, ?4, ?5, ?6)
on conflict (one) do update set scheme = excluded.scheme, iterations = excluded.iterations, rounds = excluded.rounds,
  salt = excluded.salt, hash = excluded.hash, set_at = excluded.set_at
"""


async def set_passphrase(authority: Authority, text: str, session: Session | None = None) -> None:
    """Set or change the passphrase, and end all sessions but this one. Raises PassphraseRefused."""
    secret = accepted(text)
    salt = authority.random(SALT_BYTES)
    hashed = await stretch(authority.cryptography, secret, salt, ITERATIONS, ROUNDS)
    kept = (SCHEME, ITERATIONS, ROUNDS, salt.hex(), hashed.hex(), authority.clock())
    await authority.database.batch([Statement(_SET, kept), *ending_all(session)])


async def remove_passphrase(authority: Authority, session: Session | None = None) -> None:
    """Let only the key sign in, and end all sessions but this one."""
    await authority.database.batch([Statement("delete from owner_passphrase"), *ending_all(session)])


async def is_set(authority: Authority) -> bool:
    """Say whether there is a passphrase."""
    return bool(await authority.database.query("select 1 from owner_passphrase"))


@dataclass(frozen=True, slots=True)
class _Kept:
    salt: bytes
    iterations: int
    rounds: int
    hash: bytes


_NONE: Final = _Kept(bytes(SALT_BYTES), ITERATIONS, ROUNDS, bytes(HASH_BYTES))
"""Stands for a passphrase that isn't set: checking takes as long, and nobody knows a text of this hash."""


_IMPOSSIBLE: Final = b"\0"


async def check(authority: Authority, text: str) -> str | None:
    """Return the hash of the passphrase if a text is that; with none set no text is, after the same work.

    Raises PassphraseUnusable.
    """
    rows = await authority.database.query("select scheme, iterations, rounds, salt, hash from owner_passphrase")
    kept = _kept(rows[0]) if rows else _NONE
    typed = _bytes(text)
    possible = not isinstance(typed, Reason)
    # What can't be the passphrase costs the same as what could be.
    secret = typed if possible else _IMPOSSIBLE
    found = await stretch(authority.cryptography, secret, kept.salt, kept.iterations, kept.rounds)
    right = hmac.compare_digest(found, kept.hash) and bool(rows) and possible
    return kept.hash.hex() if right else None


async def is_still(authority: Authority, hashed: str) -> bool:
    """Say whether the passphrase is the one whose hash `check` has returned: checking takes long."""
    return bool(await authority.database.query("select 1 from owner_passphrase where hash = ?1", (hashed,)))


def _kept(row: Row) -> _Kept:
    try:
        kept = _Kept(
            salt=bytes.fromhex(str(row["salt"])),
            iterations=int(row["iterations"] or 0),
            rounds=int(row["rounds"] or 0),
            hash=bytes.fromhex(str(row["hash"])),
        )
    except ValueError as error:
        raise PassphraseUnusable from error
    if row["scheme"] != SCHEME or not 1 <= kept.iterations <= ITERATIONS or not 1 <= kept.rounds <= ROUNDS_MAX:
        raise PassphraseUnusable
    if len(kept.salt) < SALT_BYTES or len(kept.hash) != HASH_BYTES:
        raise PassphraseUnusable
    return kept
