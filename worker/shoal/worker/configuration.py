"""What wrangler.toml and the secrets say, checked before anyone is served."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from shoal.api.oauth.authority import APP_SCHEMES, OAuthSettings
from shoal.core.times import zone_named
from shoal.schema.errors import InvalidTime, NotConfigured
from shoal.schema.limits import TRASH_DAYS_DEFAULT
from shoal.worker.models import EdgeModel, model_named

Clock = Callable[[], int]
"""Milliseconds since 1970."""

DAYS_MAX: Final = 3650
"""The longest that anything is kept which wrangler.toml gives in days, but for refresh tokens."""
ACCESS_MINUTES: Final = (5, 1_440)
REFRESH_DAYS: Final = (1, 365)
_MINUTE_S: Final = 60
_DAY_S: Final = 86_400
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_ORIGIN: Final = re.compile(r"\*|https?://[^\s/,?#]+")
_NAME: Final = r"(?=.{1,253}(?:[:/]|$))[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
_PORT: Final = r"(?::[1-9][0-9]{0,4})?"
LOOPBACK: Final = re.compile(rf"(?:localhost|127\.0\.0\.1|\[::1\]){_PORT}")
"""Names of this machine, as a Host header has them in lower case."""
PUBLIC_URL: Final = re.compile(rf"https://{_NAME}{_PORT}|https?://{LOOPBACK.pattern}")
"""The name of an authorization server: an origin in lower case. Without https only on this machine."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{1,63}")
NO_APP_SCHEMES: Final = frozenset(
    "about blob data file filesystem ftp http https javascript mailto tel vbscript view-source ws wss".split()
)
"""Schemes that belong to browsers, and to no app."""
_TEAM: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.cloudflareaccess\.com")


class Variables(NamedTuple):
    """The variables and secrets as they stand; empty where there is none."""

    OWNER_KEY_SHA256: str = ""
    MODEL: str = ""
    ALLOWED_ORIGINS: str = ""
    TRASH_DAYS: str = ""
    TIME_ZONE: str = ""
    PUBLIC_URL: str = ""
    ACCESS_TOKEN_MINUTES: str = ""
    REFRESH_TOKEN_DAYS: str = ""
    CLIENT_REGISTRATION: str = ""
    CLIENT_DOCUMENTS: str = ""
    APP_SCHEMES: str = ""
    ACCESS_TEAM: str = ""
    ACCESS_AUDIENCE: str = ""
    LOG_DAYS: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How this Worker serves."""

    oauth: OAuthSettings
    """Who may let others in and for how long. Its `owner_key_sha256` is empty where no secret is set."""
    public_url: str
    """The origin under which the Worker is known; empty = the one that each request names."""
    model: EdgeModel
    origins: frozenset[str]
    """Of web pages that may call from another host."""
    trash_days: int
    time_zone: str
    """In which words for times are meant, unless a request names another."""

    @property
    def has_owner(self) -> bool:
        """Whether anyone may be served at all."""
        return self.oauth.owner_key_sha256 != ""


def read(env: object) -> Configuration:
    """Return what the Worker's environment says. Raises NotConfigured, which names the variable and how to set it."""
    return parse(Variables(*(str(getattr(env, name, "") or "") for name in Variables._fields)))


@lru_cache(maxsize=2)
def parse(given: Variables) -> Configuration:
    """Return the configuration that variables mean. Raises NotConfigured."""
    said = Variables(*(text.strip() for text in given))
    time_zone = _time_zone(said.TIME_ZONE)
    return Configuration(
        oauth=_oauth(said, time_zone),
        public_url=_public_url(said.PUBLIC_URL.lower()),
        model=model_named(given.MODEL),
        origins=_origins(said.ALLOWED_ORIGINS),
        trash_days=_number("TRASH_DAYS", said.TRASH_DAYS, TRASH_DAYS_DEFAULT, "days", 1, DAYS_MAX),
        time_zone=time_zone,
    )


def no_owner() -> NotConfigured:
    """Return the error for a Worker that knows no owner."""
    return NotConfigured(
        "The secret OWNER_KEY_SHA256 is missing, so nobody may be served.",
        "`shoal owner-key` makes an owner's key and prints its SHA-256: `npx wrangler secret put OWNER_KEY_SHA256`.",
    )


def binding(env: object, name: str) -> Any:
    """Return a binding of the Worker's environment. Raises NotConfigured."""
    found = getattr(env, name, None)
    if found is None:
        raise NotConfigured(f"The binding {name} is missing.", f"Give wrangler.toml its section for {name} back.")
    return found


def _oauth(said: Variables, time_zone: str) -> OAuthSettings:
    team, audience = _access(said.ACCESS_TEAM.lower(), said.ACCESS_AUDIENCE.lower())
    defaults = OAuthSettings("")
    access = defaults.access_s // _MINUTE_S
    refresh = defaults.refresh_idle_s // _DAY_S
    return OAuthSettings(
        owner_key_sha256=_owner_key(said.OWNER_KEY_SHA256.lower()),
        access_s=_MINUTE_S
        * _number("ACCESS_TOKEN_MINUTES", said.ACCESS_TOKEN_MINUTES, access, "minutes", *ACCESS_MINUTES),
        refresh_idle_s=_DAY_S * _number("REFRESH_TOKEN_DAYS", said.REFRESH_TOKEN_DAYS, refresh, "days", *REFRESH_DAYS),
        app_schemes=_app_schemes(said.APP_SCHEMES.lower()),
        registration=_switch("CLIENT_REGISTRATION", said.CLIENT_REGISTRATION, defaults.registration),
        documents=_switch("CLIENT_DOCUMENTS", said.CLIENT_DOCUMENTS, defaults.documents),
        access_team=team,
        access_audience=audience,
        log_days=_number("LOG_DAYS", said.LOG_DAYS, defaults.log_days, "days", 1, DAYS_MAX),
        default_time_zone=time_zone,
    )


def _owner_key(text: str) -> str:
    if text and not _HASH.fullmatch(text):
        raise NotConfigured(
            "The secret OWNER_KEY_SHA256 is not 64 hexadecimal characters.",
            "Set it to the SHA-256 that `shoal owner-key` prints, not to the key itself:"
            " `npx wrangler secret put OWNER_KEY_SHA256`.",
        )
    return text


def _public_url(text: str) -> str:
    origin = text.removesuffix("/")
    if origin and not PUBLIC_URL.fullmatch(origin):
        raise _wrong("PUBLIC_URL", text, "the https origin under which clients reach it, such as https://m.example.com")
    return origin


def _app_schemes(text: str) -> tuple[str, ...]:
    schemes = tuple(dict.fromkeys(_parts(text))) or APP_SCHEMES
    for scheme in schemes:
        if not _SCHEME.fullmatch(scheme) or scheme in NO_APP_SCHEMES:
            raise _wrong("APP_SCHEMES", scheme, "the URL schemes of desktop apps, such as cursor, with commas")
    return schemes


def _access(team: str, audience: str) -> tuple[str, str]:
    if bool(team) != bool(audience):
        raise NotConfigured(
            "Of the variables ACCESS_TEAM and ACCESS_AUDIENCE only one is set.",
            "Set both in wrangler.toml to let Cloudflare Access sign the owner in, or none.",
        )
    if team and not _TEAM.fullmatch(team):
        raise _wrong("ACCESS_TEAM", team, "the team's host, such as example.cloudflareaccess.com")
    if audience and not _HASH.fullmatch(audience):
        raise _wrong("ACCESS_AUDIENCE", audience, "the application's audience tag, 64 hexadecimal characters")
    return team, audience


def _origins(text: str) -> frozenset[str]:
    origins = frozenset(_parts(text.lower()))
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise _wrong("ALLOWED_ORIGINS", origin, "origins such as https://app.example.com, with commas")
    return origins


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[\s,]+", text) if part]


def _number(name: str, text: str, default: int, unit: str, least: int, most: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
        raise _wrong(name, text, f"a number of {unit} from {least} to {most}")
    return int(text)


def _switch(name: str, text: str, default: bool) -> bool:
    if not text:
        return default
    if text.lower() not in ("on", "off"):
        raise _wrong(name, text, "on or off")
    return text.lower() == "on"


def _time_zone(text: str) -> str:
    try:
        return zone_named(text or "UTC").key
    except InvalidTime:
        raise _wrong("TIME_ZONE", text, "an IANA name such as Europe/Berlin") from None


def _wrong(name: str, value: str, wanted: str) -> NotConfigured:
    return NotConfigured(f"The variable {name} is {value!a}.", f"Set it in wrangler.toml to {wanted}.")
