"""Under which name a request has reached us: that of the authorization server which answers it."""

from starlette.types import Scope as HttpScope

from shoal.api.gate import DEFAULT_PORTS
from shoal.schema.errors import HostNotAllowed
from shoal.worker.configuration import LOOPBACK, PUBLIC_URL


def issuer(scope: HttpScope, public_url: str) -> str:
    """Return the origin `https://host`, without a slash: the configured one, else the request's. Raises HostNotAllowed.

    Without https only this machine is reached. Where another name comes over plain http, a proxy in front has taken
    the https off, and what we say of ourselves must be what its clients see.
    """
    if public_url:
        return public_url
    hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    host = hosts[0] if len(hosts) == 1 else ""
    scheme = scope["scheme"] if LOOPBACK.fullmatch(host) else "https"
    origin = f"{scheme}://{host.removesuffix(DEFAULT_PORTS.get(scheme, ''))}"
    if not PUBLIC_URL.fullmatch(origin):
        raise HostNotAllowed(
            "The Host header is no name of a server.",
            "Use the address of this server, or set PUBLIC_URL in wrangler.toml to it.",
        )
    return origin
