"""Where an authorization code may be sent: what may be registered, and what a request may name of it.

Pure. Comparing is by simple strings (RFC 6749, 3.1.2.3; RFC 9700, 2.1), so a uri must be written in the one way in which
everybody reads it. What browsers would repair (backslashes, white space, other notations of a host) is refused.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import Client

URI_MAX_CHARS: Final = 2_000
LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})
"""This machine, as RFC 8252, 7.3 and 8.3 have it; `localhost` because Claude Code and others send it."""
_PORT_MAX: Final = 65_535
_NEVER: Final = frozenset(
    ("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "intent", "javascript", "mailto", "vbscript")
    + ("view-source", "ws", "wss")
)
"""Schemes that run, read or show something by themselves: no setting makes apps of them."""

# RFC 3986, 2: no blanks, controls, quotes or backslashes, and `%` only before two hexadecimal digits.
_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):(.+)")
_WEB: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?(?P<rest>(?:[/?].*)?)"
)
_LABEL: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_HOST_MAX_CHARS: Final = 253


@dataclass(frozen=True, slots=True)
class _Web:
    """The parts of an http or https uri; `port` is empty where none is written."""

    scheme: str
    host: str
    port: str
    rest: str

    @property
    def host_and_port(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host

    @property
    def is_loopback(self) -> bool:
        return self.scheme == "http" and self.host in LOOPBACK


def check(uri: str, app_schemes: Collection[str], issuer: str) -> None:
    """Raise OAuthError(INVALID_REDIRECT_URI) unless a client may register this uri.

    https anywhere but at this server, http on this machine, and the schemes of desktop apps that are named.
    """
    if len(uri) > URI_MAX_CHARS:
        raise _refusal(f"A redirect_uri is too long; at most {URI_MAX_CHARS} characters.")
    if not _CHARACTERS.fullmatch(uri):
        raise _refusal("A redirect_uri has characters that no URI has; percent-encode them.")
    if "#" in uri:
        raise _refusal("A redirect_uri must have no fragment (RFC 6749, 3.1.2).")
    if "*" in uri:
        # It would be compared as it stands; whoever writes it expects more.
        raise _refusal("A redirect_uri must be whole; wildcards are not known here.")
    parts = _SCHEME.fullmatch(uri)
    if parts is None:
        raise _refusal("A redirect_uri must be absolute, its scheme in lower case.")
    scheme, rest = parts.groups()
    if scheme in ("http", "https"):
        _check_web(uri, issuer)
    elif scheme not in app_schemes or scheme in _NEVER:
        raise _refusal("A redirect_uri must be https, http on loopback, or of an app scheme that is allowed here.")
    elif "@" in re.split(r"[/?]", rest.removeprefix("//"), maxsplit=1)[0]:
        raise _refusal("A redirect_uri must name no user.")


def _check_web(uri: str, issuer: str) -> None:
    web = _web(uri)
    if web is None:
        raise _refusal(
            "A redirect_uri must have a plain host: a name in lower case or a canonical IP address,"
            " without user, percent-encoding or empty port."
        )
    if web.scheme == "http":
        if not web.is_loopback:
            raise _refusal("A redirect_uri must be https, except on 127.0.0.1, [::1] or localhost.")
        return
    own = _web(issuer)
    if own is not None and web.host == own.host:
        raise _refusal("A redirect_uri must not lead back to this server.")


def matches(registered: str, given: str) -> bool:
    """Say whether a request may name this uri, where that one is registered.

    They must be the same string (RFC 3986, 6.2.1); only the port of http on loopback may differ, as programs take
    the one that is free (RFC 8252, 7.3). 127.0.0.1, [::1] and localhost are three different hosts.
    """
    if registered == given:
        return True
    one, other = _web(registered), _web(given)
    if one is None or other is None or not one.is_loopback:
        return False
    return (one.scheme, one.host, one.rest) == (other.scheme, other.host, other.rest)


def chosen(client: Client, given: str | None) -> str:
    """Return where a request wants its code: exactly as given, or the only uri that is registered.

    Raises OAuthError(INVALID_REQUEST), which must be shown to the person and sent nowhere.
    """
    if given is None:
        if len(client.redirect_uris) != 1:
            raise OAuthError(Code.INVALID_REQUEST, "Send redirect_uri: the client has registered several.")
        return client.redirect_uris[0]
    if not any(matches(registered, given) for registered in client.redirect_uris):
        raise OAuthError(Code.INVALID_REQUEST, "The redirect_uri is not one that the client has registered.")
    return given


def is_loopback(uri: str) -> bool:
    """Say whether codes go to a program on the person's own machine, which any program there may be."""
    web = _web(uri)
    return web is not None and web.is_loopback


def host_shown(uri: str) -> str:
    """Return what tells a person where a code would go: the host, with a port that is written, or an app's scheme."""
    web = _web(uri)
    return web.host_and_port if web is not None else _scheme(uri)


def form_action(uri: str) -> str:
    """Return the CSP source that lets a form's answer redirect there: an origin, or `scheme:`.

    CSP has no notation for IPv6 hosts, so of these the scheme stands alone.
    """
    web = _web(uri)
    if web is None or web.host.startswith("["):
        return f"{_scheme(uri)}:"
    return f"{web.scheme}://{web.host_and_port}"


def _web(uri: str) -> _Web | None:
    match = _WEB.fullmatch(uri)
    if match is None:
        return None
    port = match["port"] or ""
    if not _is_canonical(match["host"]) or int(port or 0) > _PORT_MAX:
        return None
    return _Web(match["scheme"], match["host"], port, match["rest"])


def _is_canonical(host: str) -> bool:
    if host.startswith("["):
        try:
            return f"[{IPv6Address(host[1:-1]).compressed}]" == host
        except ValueError:
            return False
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Whatever ends in a number is read as an IPv4 address, in any of its notations (WHATWG URL, 3.5).
        try:
            return str(IPv4Address(host)) == host
        except ValueError:
            return False
    return len(host) <= _HOST_MAX_CHARS and all(map(_LABEL.fullmatch, labels))


def _scheme(uri: str) -> str:
    return uri.partition(":")[0]


def _refusal(description: str) -> OAuthError:
    return OAuthError(Code.INVALID_REDIRECT_URI, description)
