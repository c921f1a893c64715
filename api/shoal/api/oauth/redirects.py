"""Where a code may be sent: what may be registered, and what a request may name (RFC 9700, 2.1 and 4.1; RFC 8252, 7).

Pure. A URI is taken as the text that it is: whoever sends a browser there sends exactly what was registered, so nothing
is normalised, and what two parsers could read differently is refused.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from shoal.api.oauth import escapes
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import Client

URI_MAX_CHARS: Final = 2_000
LOOPBACK: Final = ("127.0.0.1", "[::1]", "localhost")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")
"""The characters of a URI (RFC 3986, 2) but `#`, which would begin a fragment."""
_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PORT: Final = re.compile(r":([1-9][0-9]{0,4})")
_PORT_MAX: Final = 65_535


def check(uri: str, app_schemes: tuple[str, ...], issuer: str) -> None:
    """Raise OAuthError (invalid_redirect_uri) unless codes may be sent there at all."""
    if len(uri) > URI_MAX_CHARS:
        raise _refused(f"A redirect URI has over {URI_MAX_CHARS} characters.")
    if not _ALLOWED.fullmatch(uri) or not escapes.are_whole(uri):
        raise _refused("A redirect URI has characters that no URI may have, or a fragment.")
    parts = _split(uri)
    # The text must begin as the scheme was read: a parser that skips or lowers something reads another.
    if not uri.startswith(f"{parts.scheme}:"):
        raise _refused("Write the scheme of a redirect URI in lower case.")
    if parts.scheme in app_schemes:
        if uri == f"{parts.scheme}:":
            raise _refused("A redirect URI must say more than a scheme.")
        return
    if parts.scheme not in ("https", "http") or not uri.startswith(f"{parts.scheme}://"):
        raise _refused("A redirect URI must be https, http on this machine, or of a scheme in APP_SCHEMES.")
    host = _host(parts.netloc)
    if parts.scheme == "http" and host not in LOOPBACK:
        raise _refused("Over http codes go only to 127.0.0.1, [::1] or localhost. Use https.")
    # Cookies know no ports, and Cloudflare serves a site at several; on loopback other ports are other programs.
    own = urlsplit(issuer)
    if parts.netloc == own.netloc or (parts.scheme == "https" and host == _host(own.netloc)):
        raise _refused("A redirect URI may not lead back to this server.")


def chosen(client: Client, given: str | None) -> str:
    """Return where a client's answer goes: as given, or the only one that it has registered. Raises OAuthError."""
    if given is None:
        if len(client.redirect_uris) == 1:
            return client.redirect_uris[0]
        raise _refused("The redirect_uri is missing, and the app has more than one.")
    if any(matches(registered, given) for registered in client.redirect_uris):
        return given
    raise _refused("The redirect_uri is none of those that the app has registered.")


def matches(registered: str, given: str) -> bool:
    """Say whether two are the same text; on this machine the port doesn't count (RFC 8252, 7.3)."""
    if registered == given:
        return True
    kept, asked = _loopback_port(registered), _loopback_port(given)
    return kept is not None and kept == asked


def is_loopback(uri: str) -> bool:
    """Say whether it leads to a program on the machine of whoever opens it, over http or https."""
    parts = urlsplit(uri)
    return parts.scheme in ("https", "http") and _host(parts.netloc) in LOOPBACK


def host_shown(uri: str) -> str:
    """Return what people are shown of it: the host, with its port if it has one, or the scheme of an app."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in ("https", "http") else f"{parts.scheme}:"


def form_action(uri: str) -> str:
    """Return it as a source of the Content-Security-Policy's form-action: its origin, or the scheme of an app.

    That policy has no notation for IPv6 hosts (CSP 3, 2.3.1), so for these the scheme stands alone.
    """
    parts = urlsplit(uri)
    named = parts.scheme in ("https", "http") and not parts.netloc.startswith("[")
    return f"{parts.scheme}://{parts.netloc}" if named else f"{parts.scheme}:"


def _loopback_port(uri: str) -> tuple[str, str] | None:
    """Return a loopback URI as the host and what follows the port, None for any other."""
    for host in LOOPBACK:
        start = f"http://{host}"
        if uri.startswith(start):
            rest = uri[len(start) :]
            port = _PORT.match(rest)
            rest = rest[port.end() :] if port and int(port[1]) <= _PORT_MAX else rest
            if rest[:1] in ("", "/", "?"):
                return host, rest
    return None


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise _refused("A redirect URI can not be read.") from error


def _host(authority: str) -> str:
    """Return the host of an authority. Raises OAuthError unless it is plainly a host, with a port or without."""
    end = authority.find("]") + 1 if authority.startswith("[") else authority.find(":")
    host = authority[:end] if end > 0 else authority
    port = authority[len(host) :]
    if port and (not _PORT.fullmatch(port) or int(port[1:]) > _PORT_MAX):
        raise _refused("The port of a redirect URI is not a number from 1 to 65535.")
    if not (_is_address(host) or (_NAME.fullmatch(host) and not _is_numeric(host) and len(host) <= 253)):
        raise _refused("The host of a redirect URI must be a plain name or address in lower case, without a user.")
    return host


def _is_address(host: str) -> bool:
    try:
        if host.startswith("["):
            return "%" not in host and str(IPv6Address(host[1:-1])) == host[1:-1]
        return str(IPv4Address(host)) == host
    except AddressValueError:
        return False


def _is_numeric(host: str) -> bool:
    """Say whether browsers would read the name as a number, and so as an address (127.1, 0x7f000001)."""
    return re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]) is not None


def _refused(description: str) -> OAuthError:
    return OAuthError(Code.INVALID_REDIRECT_URI, description)
