"""What the parts of OAuth share: the database, the settings, the clock, chance, and the names of this server."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope as HttpScope

from shoal.api.oauth.ports import Cryptography, Fetcher
from shoal.core.protocols import Database
from shoal.schema.limits import LOG_DAYS_DEFAULT

AUTHORITY_KEY: Final = "shoal.authority"
"""Where a request's Authority lies in its ASGI scope."""
RESOURCE_PATH: Final = "/mcp"
"""The one resource of this server is this path of it; its tokens also serve /api/v1 and /sync."""
APP_SCHEMES: Final = ("cursor", "vscode", "vscode-insiders", "windsurf", "claude", "zed")
"""Schemes of desktop apps that may be sent a code, besides https and http on this machine."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """How long things last, in seconds, and what is let in at all."""

    owner_key_sha256: str = field(repr=False)
    code_s: int = 60
    access_s: int = 3_600
    refresh_idle_s: int = 30 * 86_400
    session_s: int = 12 * 3_600
    form_s: int = 600
    client_s: int = 90 * 86_400
    """A client that registered itself, after its last use; one that nobody has ever let in goes after a day."""
    app_schemes: tuple[str, ...] = APP_SCHEMES
    registration: bool = True
    """Whether clients may register themselves (RFC 7591)."""
    documents: bool = True
    """Whether a URL may be a client's id."""
    access_team: str = ""
    """Cloudflare Access as a login: the team's host, such as `example.cloudflareaccess.com`; empty = none."""
    access_audience: str = ""
    """The tag of the Access application."""
    log_days: int = LOG_DAYS_DEFAULT
    """How long the log of writes is kept."""
    default_time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Authority:
    """The authorization server of one request."""

    database: Database
    settings: OAuthSettings
    issuer: str
    """`https://host`, without a slash at the end."""
    clock: Callable[[], int]
    """Milliseconds since 1970."""
    random: Callable[[int], bytes]
    """So many unguessable bytes."""
    cryptography: Cryptography
    fetcher: Fetcher
    network: str = ""
    """Where the request comes from: what one client surely has for itself of an address; for limits, never shown."""

    @property
    def resource(self) -> str:
        """The one resource (RFC 8707), which tokens are bound to."""
        return self.issuer + RESOURCE_PATH


def authority_of(scope: HttpScope) -> Authority:
    """Return the Authority that the shell's owner put into a request's scope."""
    return scope[AUTHORITY_KEY]


def sha256(secret: str) -> str:
    """Return the form in which a secret is kept: 64 hexadecimal characters."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
