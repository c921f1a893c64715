"""What wrangler.toml and the secrets say, checked before anyone is served."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from shoal.core.times import zone_named
from shoal.schema.errors import InvalidTime, NotConfigured
from shoal.schema.limits import TRASH_DAYS_DEFAULT
from shoal.worker.models import EdgeModel, model_named

Clock = Callable[[], int]
"""Milliseconds since 1970."""

TRASH_DAYS_MAX: Final = 3650
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_ORIGIN: Final = re.compile(r"\*|https?://[^\s/,?#]+")


class Variables(NamedTuple):
    """The variables and secrets as they stand; empty where there is none."""

    TOKEN_SHA256: str = ""
    MODEL: str = ""
    ALLOWED_ORIGINS: str = ""
    TRASH_DAYS: str = ""
    TIME_ZONE: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How this Worker serves."""

    token_sha256: str | None
    """SHA-256 of the one bearer token, 64 lower-case hexadecimal characters; without it nobody is served."""
    model: EdgeModel
    origins: frozenset[str]
    """Of web pages that may call from another host."""
    trash_days: int
    time_zone: str
    """In which words for times are meant, unless a request names another."""


def read(env: object) -> Configuration:
    """Return what the Worker's environment says. Raises NotConfigured, which names the variable and how to set it."""
    return parse(Variables(*(str(getattr(env, name, "") or "") for name in Variables._fields)))


@lru_cache(maxsize=2)
def parse(given: Variables) -> Configuration:
    """Return the configuration that variables mean. Raises NotConfigured."""
    return Configuration(
        token_sha256=_token(given.TOKEN_SHA256.strip().lower()),
        model=model_named(given.MODEL),
        origins=_origins(given.ALLOWED_ORIGINS),
        trash_days=_trash_days(given.TRASH_DAYS.strip()),
        time_zone=_time_zone(given.TIME_ZONE.strip()),
    )


def no_token() -> NotConfigured:
    """Return the error for a Worker that knows no token."""
    return NotConfigured(
        "The secret TOKEN_SHA256 is missing, so nobody may be served.",
        "Set it to the SHA-256, in 64 hexadecimal characters, of the bearer token that clients will send:"
        " `npx wrangler secret put TOKEN_SHA256`.",
    )


def binding(env: object, name: str) -> Any:
    """Return a binding of the Worker's environment. Raises NotConfigured."""
    found = getattr(env, name, None)
    if found is None:
        raise NotConfigured(f"The binding {name} is missing.", f"Give wrangler.toml its section for {name} back.")
    return found


def _token(text: str) -> str | None:
    if not text:
        return None
    if not _HASH.fullmatch(text):
        raise NotConfigured(
            "The secret TOKEN_SHA256 is not 64 hexadecimal characters.",
            "Set it to the SHA-256 of the token, not to the token: `npx wrangler secret put TOKEN_SHA256`.",
        )
    return text


def _origins(text: str) -> frozenset[str]:
    origins = frozenset(part for part in re.split(r"[\s,]+", text.lower()) if part)
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise _wrong("ALLOWED_ORIGINS", origin, "origins such as https://app.example.com, with commas")
    return origins


def _trash_days(text: str) -> int:
    if not text:
        return TRASH_DAYS_DEFAULT
    if not text.isdecimal() or not 1 <= int(text) <= TRASH_DAYS_MAX:
        raise _wrong("TRASH_DAYS", text, f"a number of days from 1 to {TRASH_DAYS_MAX}")
    return int(text)


def _time_zone(text: str) -> str:
    try:
        return zone_named(text or "UTC").key
    except InvalidTime:
        raise _wrong("TIME_ZONE", text, "an IANA name such as Europe/Berlin") from None


def _wrong(name: str, value: str, wanted: str) -> NotConfigured:
    return NotConfigured(f"The variable {name} is {value!a}.", f"Set it in wrangler.toml to {wanted}.")
