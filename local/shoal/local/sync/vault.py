"""Where a link lies: a private file that says how the edge lets this device in, and its tokens in the OS keyring.

Where there is no keyring, or none that can be written to, the tokens lie in the file too. Everything here may block.
"""

import secrets
from contextlib import suppress
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.local.sync.asking import again
from shoal.local.sync.files import SyncFiles, write_private
from shoal.schema.errors import LinkBroken, SyncError

SERVICE: Final = "shoal"
"""Under which keyrings list our entries."""
TOKEN_PATTERN: Final = r"^[A-Za-z0-9._~+/=-]{1,1000}$"  # noqa: S105 - a form, not a secret
"""What may stand in a header behind `Bearer` (RFC 6750, 2.1)."""
_GOOD_PRIORITY: Final = 1
"""keyring gives less to backends that refuse everything, forget everything, or write plain files of their own."""


class _Kept(BaseModel):
    # A newer shoal may have written more.
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class Tokens(_Kept):
    """The secrets of a link. Without a refresh token it is a device token, which lasts until it is revoked."""

    access_token: str = Field(pattern=TOKEN_PATTERN, repr=False)
    refresh_token: str | None = Field(default=None, pattern=TOKEN_PATTERN, repr=False)
    expires_at: int | None = None
    """Of the access token, milliseconds since 1970 by this device's clock; None = never."""


class Client(_Kept):
    """The OAuth client that this device has registered."""

    client_id: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    resource: str
    """What the tokens are for (RFC 8707)."""


class Link(_Kept):
    """How the edge lets this device in. None of it is secret."""

    url: str
    client: Client | None = None
    """None where the owner has made a device token."""
    account: str | None = None
    """The name of the keyring's entry that has the tokens; None = they lie in the file."""


class _Stored(Link):
    tokens: Tokens | None = None


Stamp = tuple[int, int, int] | None
"""Changes whenever the file is written; None where there is none."""


def stamp(files: SyncFiles) -> Stamp:
    """Return what tells whether the link has changed. About 2 µs."""
    try:
        found = files.link.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def read(files: SyncFiles) -> tuple[Link, Tokens] | None:
    """Return the link and its tokens, None where there is none.

    Raises LinkBroken where it can't be used any more, SyncError where it can't be read now.
    """
    try:
        found = _Stored.model_validate_json(files.link.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SyncError(
            f"{files.link} can't be read: {error.strerror or error}.", "Give it back to your user."
        ) from error
    except ValidationError:
        # Not chained: its text would repeat the file's.
        raise LinkBroken(f"{files.link} is damaged.", "Link the edge again: shoal link URL") from None
    link = Link(**found.model_dump(exclude={"tokens"}))
    tokens = found.tokens if found.account is None else _from_keyring(found.account)
    if tokens is None:
        raise LinkBroken(f"The token for {found.url} is gone from where it was kept.", again(found.url))
    return link, tokens


def store(files: SyncFiles, link: Link, tokens: Tokens) -> Link:
    """Keep a new link in the place of an old one and return it as it is kept. Raises SyncError."""
    old = _account(files)
    account = _to_new_entry(link.url, tokens)
    kept = link.model_copy(update={"account": account})
    _write(files, kept, tokens if account is None else None)
    if old is not None:
        _remove_entry(old)
    return kept


def replace(files: SyncFiles, link: Link, tokens: Tokens) -> None:
    """Keep newer tokens of a link, so that they outlast this process and the machine's power. Raises SyncError."""
    if link.account is None:
        _write(files, link, tokens)
        return
    try:
        _keyring().set_password(SERVICE, link.account, tokens.model_dump_json())
    except Exception as error:
        raise _keyring_refused(error) from error


def forget(files: SyncFiles) -> None:
    """Remove a link and its tokens. Raises SyncError."""
    account = _account(files)
    if account is not None:
        _remove_entry(account)
    try:
        files.link.unlink(missing_ok=True)
    except OSError as error:
        raise SyncError(f"{files.link} can't be removed: {error.strerror or error}.", "Remove it.") from error


def _write(files: SyncFiles, link: Link, tokens: Tokens | None) -> None:
    stored = _Stored(**link.model_dump(), tokens=tokens)
    try:
        write_private(files.link, stored.model_dump_json(exclude_none=True), durable=True)
    except OSError as error:
        raise SyncError(
            f"The link can't be written to {files.link}: {error.strerror or error}.",
            "Make room there, or let your user write to it.",
        ) from error


def _account(files: SyncFiles) -> str | None:
    with suppress(OSError, ValidationError):
        return _Stored.model_validate_json(files.link.read_bytes()).account
    return None


def _to_new_entry(url: str, tokens: Tokens) -> str | None:
    """Put tokens into the keyring under a new name, and return it; None where it keeps nothing."""
    # Random: two homes of one person may be linked to the same edge.
    account, text = f"{url} {secrets.token_hex(4)}", tokens.model_dump_json()
    # Backends come from anyone and raise anything. A failure here is no harm: the file keeps secrets too.
    with suppress(Exception):
        keyring = _keyring()
        if keyring.get_keyring().priority >= _GOOD_PRIORITY:
            keyring.set_password(SERVICE, account, text)
            if keyring.get_password(SERVICE, account) == text:
                return account
    return None


def _from_keyring(account: str) -> Tokens | None:
    try:
        text: str | None = _keyring().get_password(SERVICE, account)
    except Exception as error:
        raise _keyring_refused(error) from error
    try:
        return None if text is None else Tokens.model_validate_json(text)
    except ValidationError:
        return None


def _remove_entry(account: str) -> None:
    # Revoked or replaced, it opens nothing; that it is left behind is no reason to keep the link.
    with suppress(Exception):
        _keyring().delete_password(SERVICE, account)


def _keyring() -> Any:
    # 110 ms, and only where it is used.
    import keyring

    return cast("Any", keyring)


def _keyring_refused(error: Exception) -> SyncError:
    return SyncError(
        f"The system's keyring does not give the edge's token ({type(error).__name__}).",
        "Unlock it, or start shoal from a session that has one. To keep the token in a private file instead, set"
        " PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring and link again.",
    )
