"""What OAuth clients are told when something is refused: the codes of RFC 6749, 7591, 8707 and their HTTP statuses."""

from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """The `error` of an answer."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    INVALID_SCOPE = "invalid_scope"
    INVALID_TARGET = "invalid_target"
    INVALID_REDIRECT_URI = "invalid_redirect_uri"
    INVALID_CLIENT_METADATA = "invalid_client_metadata"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a code, not a secret
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    ACCESS_DENIED = "access_denied"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    SERVER_ERROR = "server_error"


_STATUSES: Final = {
    Code.INVALID_CLIENT: 401,
    Code.INVALID_TOKEN: 401,
    Code.TEMPORARILY_UNAVAILABLE: 429,
    Code.SERVER_ERROR: 500,
}


class OAuthError(Exception):
    """A refusal in the form that OAuth gives it: {error, error_description}.

    `description` says what to do, in ASCII without quotes or backslashes (RFC 6749, 5.2), and quotes nothing that was
    sent.
    """

    def __init__(self, code: Code, description: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.retry_after_s = retry_after_s

    @property
    def status(self) -> int:
        """The HTTP status of an answer that says so directly."""
        return _STATUSES.get(self.code, 400)

    def as_dict(self) -> dict[str, str]:
        """Return the answer's body."""
        return {"error": str(self.code), "error_description": self.description}
