"""Which paths are OAuth's, and in what form each refuses: known to whoever routes, without loading what answers there.

All of them are served to anyone: who may do what, each decides for itself, by a client's secret or the owner's session.
"""

from enum import Enum
from typing import Final

WELL_KNOWN: Final = ("/.well-known/", "/mcp/.well-known/")
"""Documents for whoever looks for the way. Some clients look below the resource."""
PAGES: Final = ("/authorize", "/login", "/logout", "/consent", "/account")
"""For people, in a browser."""
ENDPOINTS: Final = ("/token", "/register", "/revoke", "/introspect")
"""For apps."""
BODY_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded"})
"""Registration takes JSON, all else forms."""
_BELOW: Final = ("/account/", "/register/")


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
    if path in PAGES or path.startswith("/account/"):
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
