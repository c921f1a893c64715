"""What an app says of itself, whether it registers (RFC 7591, 2) or publishes a document: checked alike."""

import unicodedata
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.api.oauth import redirects
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import NAME_MAX_CHARS, AuthMethod

REDIRECTS_MAX: Final = 10
WORDS_MAX: Final = 16
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
)
"""Characters of letters and marks that show nothing (Unicode's Default_Ignorable_Code_Point), and an empty braille."""
_Word = Annotated[str, Field(max_length=128)]


class ClientMetadata(BaseModel):
    """The fields that matter here; others are passed over, as RFC 7591 asks."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)

    redirect_uris: Annotated[
        list[Annotated[str, Field(max_length=redirects.URI_MAX_CHARS)]], Field(min_length=1, max_length=REDIRECTS_MAX)
    ]
    client_name: str | None = None
    token_endpoint_auth_method: _Word | None = None
    token_endpoint_auth_methods_supported: Annotated[list[_Word], Field(max_length=WORDS_MAX)] = []
    grant_types: Annotated[list[_Word], Field(max_length=WORDS_MAX)] = ["authorization_code"]
    response_types: Annotated[list[_Word], Field(max_length=WORDS_MAX)] = ["code"]

    @property
    def name(self) -> str:
        """What people are shown: the name in printable characters, else where its answers go."""
        return plain(self.client_name or "") or redirects.host_shown(self.redirect_uris[0])


def checked(given: Any, authority: Authority) -> ClientMetadata:
    """Return what an app says of itself. Raises OAuthError (invalid_client_metadata, invalid_redirect_uri)."""
    try:
        told = ClientMetadata.model_validate(given)
    except ValidationError as error:
        raise OAuthError(Code.INVALID_CLIENT_METADATA, _description(error)) from error
    for uri in told.redirect_uris:
        redirects.check(uri, authority.settings.app_schemes, authority.issuer)
    if "authorization_code" not in told.grant_types or "code" not in told.response_types:
        raise OAuthError(
            Code.INVALID_CLIENT_METADATA, "Only grant type authorization_code with response type code is served."
        )
    return told


def auth_method(told: ClientMetadata) -> AuthMethod:
    """Return how an app that registers will prove itself. Raises OAuthError (invalid_client_metadata)."""
    wanted = told.token_endpoint_auth_method or AuthMethod.BASIC  # RFC 7591, 2
    for method in AuthMethod:
        if wanted == method:
            return method
    raise OAuthError(Code.INVALID_CLIENT_METADATA, f"token_endpoint_auth_method must be {' or '.join(AuthMethod)}.")


def require_public(told: ClientMetadata) -> None:
    """Raise OAuthError (invalid_client_metadata) unless the app can do without a secret, and means to have none.

    One document serves every server: ChatGPT's prefers a key, and says that it can do with none where no key is known.
    """
    wanted = told.token_endpoint_auth_method or AuthMethod.NONE
    if AuthMethod.NONE not in (wanted, *told.token_endpoint_auth_methods_supported):
        raise OAuthError(
            Code.INVALID_CLIENT_METADATA,
            "Neither token_endpoint_auth_method nor token_endpoint_auth_methods_supported says none.",
        )
    if wanted.startswith("client_secret_"):
        raise OAuthError(
            Code.INVALID_CLIENT_METADATA,
            "With a document there is no shared secret. Say none instead of client_secret.",
        )


def plain(name: str) -> str:
    """Return a name in one line of characters that show, without those that turn the direction of text."""
    shown = (" " if character.isspace() else character for character in name)
    kept = "".join(
        character
        for character in shown
        if character not in _BLANK and not unicodedata.category(character).startswith("C")
    )
    return " ".join(kept.split())[:NAME_MAX_CHARS].strip()


def _description(error: ValidationError) -> str:
    """Return what is wrong by the names of our own fields; nothing of what was sent is repeated."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if not first["loc"]:
        return "Send one JSON object of client metadata."
    return f"The field {first['loc'][0]} is missing or of the wrong kind or size."
