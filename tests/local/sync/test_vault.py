"""Where a link and its tokens lie, and that none of it is left behind or seen by others."""

import json
import stat

import keyring
import keyring.backends.null
import keyring.errors
import pytest
from tests.local.sync.conftest import OwnKeyring

from shoal.local.sync import vault
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.vault import Client, Link, Tokens
from shoal.schema.errors import LinkBroken, SyncError

URL = "https://shoal.example"
CLIENT = Client(
    client_id="c", token_endpoint=f"{URL}/token", revocation_endpoint=f"{URL}/revoke", resource=f"{URL}/mcp"
)
TOKENS = Tokens(access_token="shoal_a_secret", refresh_token="shoal_r_secret", expires_at=1)
LINK = Link(url=URL, client=CLIENT)


def test_without_a_keyring_the_tokens_lie_in_a_file_that_only_its_owner_reads(files: SyncFiles):
    kept = vault.store(files, LINK, TOKENS)
    assert kept.account is None
    assert vault.read(files) == (LINK, TOKENS)
    assert stat.S_IMODE(files.link.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.link.parent.stat().st_mode) == 0o700
    assert list(files.link.parent.iterdir()) == [files.link]


def test_a_keyring_has_the_tokens_and_the_file_none(files: SyncFiles, own_keyring: OwnKeyring):
    kept = vault.store(files, LINK, TOKENS)
    assert vault.read(files) == (kept, TOKENS)
    assert "secret" not in files.link.read_text()
    ((service, account),) = own_keyring.kept
    assert (service, account.startswith(URL)) == ("shoal", True)


@pytest.mark.parametrize("failure", [keyring.errors.KeyringLocked("locked"), RuntimeError("no bus"), OSError("x")])
def test_a_keyring_that_takes_nothing_is_passed_over(files: SyncFiles, own_keyring: OwnKeyring, failure: Exception):
    own_keyring.failure = failure
    assert vault.store(files, LINK, TOKENS).account is None
    assert vault.read(files) == (LINK, TOKENS)


def test_a_keyring_that_forgets_or_writes_plain_files_is_passed_over(files: SyncFiles, own_keyring: OwnKeyring):
    keyring.set_keyring(keyring.backends.null.Keyring())
    assert vault.store(files, LINK, TOKENS).account is None
    keyring.set_keyring(own_keyring)
    own_keyring.priority = 0.5
    assert vault.store(files, LINK, TOKENS).account is None
    assert own_keyring.kept == {}


def test_newer_tokens_take_the_place_of_the_old_ones_where_those_are(files: SyncFiles, own_keyring: OwnKeyring):
    newer = TOKENS.model_copy(update={"refresh_token": "shoal_r_newer"})
    kept = vault.store(files, LINK, TOKENS)
    before = vault.stamp(files)
    vault.replace(files, kept, newer)
    assert vault.read(files) == (kept, newer)
    assert vault.stamp(files) == before
    own_keyring.failure = keyring.errors.PasswordSetError("locked")
    with pytest.raises(SyncError, match="PasswordSetError"):
        vault.replace(files, kept, TOKENS)


def test_the_file_tells_when_it_was_written_anew(files: SyncFiles):
    assert vault.stamp(files) is None
    vault.store(files, LINK, TOKENS)
    first = vault.stamp(files)
    vault.store(files, LINK, TOKENS)
    assert None is not first != vault.stamp(files)


def test_a_new_link_leaves_nothing_of_the_old_one(files: SyncFiles, own_keyring: OwnKeyring):
    vault.store(files, LINK, TOKENS)
    other = Tokens(access_token="shoal_d_other")
    kept = vault.store(files, Link(url="https://other.example"), other)
    assert vault.read(files) == (kept, other)
    assert len(own_keyring.kept) == 1


def test_what_is_forgotten_is_gone_from_file_and_keyring(files: SyncFiles, own_keyring: OwnKeyring):
    vault.store(files, LINK, TOKENS)
    vault.forget(files)
    assert vault.read(files) is None
    assert own_keyring.kept == {}
    vault.forget(files)


def test_a_locked_keyring_is_no_broken_link(files: SyncFiles, own_keyring: OwnKeyring):
    vault.store(files, LINK, TOKENS)
    own_keyring.failure = keyring.errors.KeyringLocked("locked")
    with pytest.raises(SyncError, match="KeyringLocked") as caught:
        vault.read(files)
    assert type(caught.value) is SyncError
    assert "Unlock it" in caught.value.mend


@pytest.mark.parametrize("entry", [None, "{", "{}", '{"access_token": ""}'])
def test_an_entry_that_is_gone_or_spoilt_must_be_linked_anew(
    files: SyncFiles, own_keyring: OwnKeyring, entry: str | None
):
    vault.store(files, LINK, TOKENS)
    ((_, account),) = own_keyring.kept
    own_keyring.kept.clear()
    if entry is not None:
        own_keyring.kept["shoal", account] = entry
    with pytest.raises(LinkBroken, match=f"shoal link {URL}"):
        vault.read(files)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"url": 1}', '{"url": "https://x", "tokens": {"access_token": "a b"}}']
)
def test_a_file_that_is_damaged_must_be_linked_anew_and_is_not_quoted(files: SyncFiles, text: str):
    files.link.parent.mkdir()
    files.link.write_text(text)
    with pytest.raises(LinkBroken, match="damaged") as caught:
        vault.read(files)
    assert caught.value.__cause__ is None
    vault.store(files, LINK, TOKENS)
    assert vault.read(files) == (LINK, TOKENS)


def test_a_file_without_tokens_must_be_linked_anew(files: SyncFiles):
    vault.store(files, LINK, TOKENS)
    told = json.loads(files.link.read_text())
    del told["tokens"]
    files.link.write_text(json.dumps(told))
    with pytest.raises(LinkBroken, match="gone"):
        vault.read(files)


def test_what_a_newer_version_has_written_besides_is_passed_over(files: SyncFiles):
    vault.store(files, LINK, TOKENS)
    told = json.loads(files.link.read_text())
    files.link.write_text(json.dumps({**told, "more": 1}))
    assert vault.read(files) == (LINK, TOKENS)


def test_a_folder_that_can_not_be_written_is_told(files: SyncFiles):
    files.link.parent.write_text("no folder")
    with pytest.raises(SyncError, match="can't be written"):
        vault.store(files, LINK, TOKENS)
    with pytest.raises(SyncError):
        vault.forget(files)


def test_tokens_show_in_no_representation():
    assert "secret" not in repr(TOKENS) + str(TOKENS) + repr(LINK)
