"""Every failure that a person can cause or meet.

ShoalError
├── InvalidInput                  422  what was sent can't be used; nothing was written
│   ├── EmptyContent
│   ├── ContentTooLong
│   ├── InvalidText                    NUL, lone surrogates
│   ├── UnknownType                    lists the types
│   ├── InvalidTag
│   ├── InvalidMetadata
│   ├── InvalidTime
│   ├── InvalidId
│   ├── OutOfRange
│   ├── TooMany
│   └── InvalidSettings
├── MalformedBody                 400  what was sent isn't JSON
├── Unauthorized                  401
├── NotAllowed                    403
│   ├── InsufficientScope              another approval could allow it
│   └── OriginNotAllowed
├── NotFound                      404
├── MethodNotAllowed              405
├── ConfirmationRequired          409
├── WasForgotten                  409
├── BodyTooLarge                  413
├── UnsupportedMediaType          415
├── HostNotAllowed                421
├── RateLimited                   429
├── InternalError                 500  a fault of ours; the log has it under the request's id
├── NotConfigured                 503  the server lacks what it needs to serve anyone
├── StorageError                  503
│   ├── StorageBusy                    worth another try
│   ├── StorageOverQuota               until the quota's day is over
│   ├── TooManyStatements              more than one invocation may run at the edge
│   ├── NotPrepared                    the migrations have not been applied
│   ├── DatabaseCorrupt
│   ├── DatabaseForeign
│   ├── DatabaseLocked
│   ├── DatabaseReadOnly
│   ├── DatabaseReplaced
│   ├── DatabaseFull
│   └── SchemaTooNew
├── VectorIndexError              503
├── ModelError                    503
│   ├── ModelBusy                      worth another try
│   ├── ModelOverQuota                 until the quota's day is over
│   ├── ModelUnavailable
│   └── WeightsMismatch
├── SyncError                     409  two replicas could not exchange what they have
│   ├── NotLinked                      this device has no edge
│   ├── LinkBroken                     the edge lets it in no more: it must be linked anew
│   ├── EdgeUnreachable                whether what was sent has arrived is unknown; worth another try
│   ├── EdgeBusy                       says when to come back
│   ├── EdgeRefused                    one request, as it was
│   ├── EdgeRestored                   the edge's database is of an earlier time than the device's cursor
│   └── ProtocolMismatch               one of the two is too old
└── DaemonError                   503
    ├── PortInUse
    ├── DaemonRunning
    └── DaemonUnreachable

Each carries `code` (for machines, never changed), `message` (what happened) and `mend` (what to do now).
"""

from typing import Any, ClassVar


class ShoalError(Exception):
    """Base of all errors of shoal."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    """The HTTP status that REST answers with."""

    def __init__(self, message: str, mend: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} {self.mend}"

    def as_dict(self) -> dict[str, Any]:
        """Return the error as every face shows it: {code, message, mend, ...details}."""
        return {"code": self.code, "message": self.message, "mend": self.mend, **self.details}


class InvalidInput(ShoalError):
    """What was sent can't be used; nothing was written."""

    code = "invalid_input"
    status = 422


class EmptyContent(InvalidInput):
    """Content is empty or only white space."""

    code = "empty_content"


class ContentTooLong(InvalidInput):
    """Content is over CONTENT_MAX_BYTES."""

    code = "content_too_long"


class InvalidText(InvalidInput):
    """Text holds a NUL character or a lone surrogate, which no UTF-8 database can keep."""

    code = "invalid_text"


class UnknownType(InvalidInput):
    """The type is neither in the ontology nor among the user's own."""

    code = "unknown_type"


class InvalidTag(InvalidInput):
    """A tag is empty, too long, or breaks its namespace's rule."""

    code = "invalid_tag"


class InvalidMetadata(InvalidInput):
    """Metadata isn't an object of JSON values within the limits."""

    code = "invalid_metadata"


class InvalidTime(InvalidInput):
    """A time is neither ISO 8601 nor an expression that we know, or the time zone is unknown."""

    code = "invalid_time"


class InvalidId(InvalidInput):
    """An id isn't 32 lower-case hexadecimal characters."""

    code = "invalid_id"


class OutOfRange(InvalidInput):
    """A number lies outside its range."""

    code = "out_of_range"


class TooMany(InvalidInput):
    """More items than one call may carry."""

    code = "too_many"


class InvalidSettings(InvalidInput):
    """A setting's value can't be used."""

    code = "invalid_settings"


class MalformedBody(ShoalError):
    """The request's body isn't JSON, or not of the form that every request has."""

    code = "malformed_body"
    status = 400


class Unauthorized(ShoalError):
    """No token, or one that is unknown, expired or revoked."""

    code = "unauthorized"
    status = 401


class NotAllowed(ShoalError):
    """The caller's token doesn't reach this space or this action."""

    code = "not_allowed"
    status = 403


class InsufficientScope(NotAllowed):
    """The caller's token lacks scopes; `scopes` names all that it needs, those that it holds among them."""

    code = "insufficient_scope"


class OriginNotAllowed(NotAllowed):
    """A web page of another origin sent this; see HostNotAllowed."""

    code = "origin_not_allowed"


class NotFound(ShoalError):
    """No such memory, resource, prompt or tool in what the caller may read."""

    code = "not_found"
    status = 404


class MethodNotAllowed(ShoalError):
    """The path exists, but not with this HTTP method."""

    code = "method_not_allowed"
    status = 405


class ConfirmationRequired(ShoalError):
    """The action destroys or hides something and `confirm` was not given."""

    code = "confirmation_required"
    status = 409


class WasForgotten(ShoalError):
    """The text was deleted before and `revive` was not given; nothing was written."""

    code = "was_forgotten"
    status = 409


class BodyTooLarge(ShoalError):
    """The request's body is over the limit."""

    code = "body_too_large"
    status = 413


class UnsupportedMediaType(ShoalError):
    """The request's body is not declared as application/json."""

    code = "unsupported_media_type"
    status = 415


class HostNotAllowed(ShoalError):
    """The Host header names another server, as a page does that rebinds its DNS name to this machine."""

    code = "host_not_allowed"
    status = 421


class RateLimited(ShoalError):
    """Too many requests of one caller in a short time; `retry_after_s` says when to come back."""

    code = "rate_limited"
    status = 429


class InternalError(ShoalError):
    """A fault of ours."""

    code = "internal_error"


class NotConfigured(ShoalError):
    """The server lacks a setting without which it serves nobody."""

    code = "not_configured"
    status = 503


class StorageError(ShoalError):
    """The database refused; the write did not happen, unless the kind below says otherwise."""

    code = "storage_error"
    status = 503


class StorageBusy(StorageError):
    """The database is overloaded or was lost for a moment. What became of a write is unknown; writing again is safe."""

    code = "storage_busy"


class StorageOverQuota(StorageError):
    """The database's daily quota is used up; `until` says when it is given anew."""

    code = "storage_over_quota"


class TooManyStatements(StorageError):
    """The work takes more statements than one invocation of the Worker may run; nothing of this batch was written."""

    code = "too_many_statements"


class NotPrepared(StorageError):
    """The database has no tables yet, or those of an older version."""

    code = "not_prepared"


class DatabaseCorrupt(StorageError):
    """The file fails SQLite's checks. It is never overwritten."""

    code = "database_corrupt"


class DatabaseForeign(StorageError):
    """The file is another program's database. Nothing is added to it."""

    code = "database_foreign"


class DatabaseLocked(StorageError):
    """Another process held the write lock longer than we wait."""

    code = "database_locked"


class DatabaseReadOnly(StorageError):
    """The file or its folder can't be written."""

    code = "database_read_only"


class DatabaseReplaced(StorageError):
    """The file was moved, deleted or replaced under the process that has it open."""

    code = "database_replaced"


class DatabaseFull(StorageError):
    """The disk is full."""

    code = "database_full"


class SchemaTooNew(StorageError):
    """A newer shoal wrote this database."""

    code = "schema_too_new"


class VectorIndexError(ShoalError):
    """The vector index refused; words still find."""

    code = "vector_index_error"
    status = 503


class ModelError(ShoalError):
    """Embedding failed; words still find."""

    code = "model_error"
    status = 503


class ModelBusy(ModelError):
    """The model did not answer in time, or takes no more requests for a moment."""

    code = "model_busy"


class ModelOverQuota(ModelError):
    """The model's daily quota is used up; `until` says when it is given anew."""

    code = "model_over_quota"


class ModelUnavailable(ModelError):
    """No embedding model can be loaded."""

    code = "model_unavailable"


class WeightsMismatch(ModelError):
    """The weights' checksum isn't the one that we know."""

    code = "weights_mismatch"


class SyncError(ShoalError):
    """Two replicas could not exchange what they have; what was acknowledged stays queued."""

    code = "sync_error"
    status = 409


class NotLinked(SyncError):
    """This device has no edge to exchange memories with."""

    code = "not_linked"


class LinkBroken(SyncError):
    """The edge lets this device in no more: its token is unknown, expired, revoked or allows no sync."""

    code = "link_broken"


class EdgeUnreachable(SyncError):
    """There was no answer. What was sent may have arrived; sending it again is safe."""

    code = "edge_unreachable"


class EdgeBusy(SyncError):
    """The edge takes no requests for a while: `retry_after_s`, 0 where it did not say."""

    code = "edge_busy"


class EdgeRefused(SyncError):
    """The edge takes this request never, whoever sends it: `refused_status` is its HTTP status."""

    code = "edge_refused"


class EdgeRestored(SyncError):
    """The edge's database was restored to an earlier time, or replaced: all is exchanged anew."""

    code = "edge_restored"


class ProtocolMismatch(SyncError):
    """The two speak no common version of the protocol, or of the schema's breaking steps."""

    code = "protocol_mismatch"


class DaemonError(ShoalError):
    """The daemon can't be started or reached."""

    code = "daemon_error"
    status = 503


class PortInUse(DaemonError):
    """Another program listens on the port."""

    code = "port_in_use"


class DaemonRunning(DaemonError):
    """A daemon already serves this home."""

    code = "daemon_running"


class DaemonUnreachable(DaemonError):
    """The daemon did not answer."""

    code = "daemon_unreachable"
