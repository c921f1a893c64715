"""Which resource a request means (RFC 8707): this server has one, and takes no other."""

from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError


def target_of(authority: Authority, given: str | None) -> str:
    """Return the resource that a `resource` parameter names; without one, the one that there is.

    Raises OAuthError (invalid_target).
    """
    if not given or given.removesuffix("/") in (authority.resource, authority.issuer):
        return authority.resource
    raise OAuthError(
        Code.INVALID_TARGET, "The resource is not this server. Send the one of its protected resource metadata."
    )
