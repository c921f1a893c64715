"""Which paths are OAuth's, and in what form each refuses: known to whoever routes, without loading what answers there.

All of them are served to anyone: who may do what, each decides for itself, by a client's secret or the owner's session.
"""

from enum import Enum
from typing import Final

WELL_KNOWN: Final = ("/.well-known/", "/mcp/.well-known/")
"""Documents for whoever looks for the way. Some clients look below the resource."""
PROTECTED_RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZE: Final = "/authorize"
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
CONSENT: Final = "/consent"
ACCOUNT: Final = "/account"
ACCOUNT_REVOKE: Final = ACCOUNT + "/revoke"
ACCOUNT_PASSPHRASE: Final = ACCOUNT + "/passphrase"
ACCOUNT_TOKEN: Final = ACCOUNT + "/token"
PAGES: Final = (AUTHORIZE, LOGIN, LOGOUT, CONSENT, ACCOUNT)
"""For people, in a browser."""
TOKEN: Final = "/token"  # noqa: S105 - a path, not a secret
REGISTER: Final = "/register"
REVOKE: Final = "/revoke"
INTROSPECT: Final = "/introspect"
ENDPOINTS: Final = (TOKEN, REGISTER, REVOKE, INTROSPECT)
"""For apps."""
BODY_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded"})
"""Registration takes JSON, all else forms."""
_BELOW: Final = (f"{ACCOUNT}/", f"{REGISTER}/")


class Form(Enum):
    """How a refusal is shown."""

    PAGE = "page"
    """HTML."""
    OAUTH = "oauth"
    """{error, error_description}."""
    SHOAL = "shoal"
    """{error: {code, message, mend}}, as everywhere else."""


def form_of(path: str) -> Form:
    """Return how refusals on a path of OAuth's are shown."""
    if path in PAGES or path.startswith(f"{ACCOUNT}/"):
        return Form.PAGE
    return Form.SHOAL if path.startswith(WELL_KNOWN) else Form.OAUTH


class OAuthPaths:
    """Contains all paths of OAuth's."""

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and (path in PAGES or path in ENDPOINTS or path.startswith((*WELL_KNOWN, *_BELOW)))


class WellKnownPaths:
    """Contains the paths of the documents that anyone's pages may read."""

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path.startswith(WELL_KNOWN)


OAUTH_PATHS: Final = OAuthPaths()
WELL_KNOWN_PATHS: Final = WellKnownPaths()
