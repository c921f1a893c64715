from pathlib import Path

import pytest

from shoal.local.aliases import ALIASES, setting_from_environment
from shoal.local.home import Home
from shoal.local.settings import Settings, is_loopback, load, masked
from shoal.schema.errors import InvalidSettings

TOP_LEVEL_MAX = 25


def write(home: Home, text: str) -> None:
    home.ensure()
    home.config.write_text(text, encoding="utf-8")


def test_without_any_setting_the_daemon_is_private_and_at_its_usual_port(home: Home) -> None:
    loaded = load(home)
    assert (loaded.settings.host, loaded.settings.port) == ("127.0.0.1", 8377)
    assert loaded.database == home.database
    assert not loaded.port_is_chosen
    assert loaded.warnings == ()


def test_there_are_at_most_25_settings_and_each_says_what_it_is_for() -> None:
    assert len(Settings.model_fields) <= TOP_LEVEL_MAX
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_command_line_wins_over_variables_and_variables_over_the_file(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "port = 1111\ntrash_days = 7\nspace = 'file'")
    monkeypatch.setenv("SHOAL_PORT", "2222")
    monkeypatch.setenv("SHOAL_SPACE", "variable")
    settings = load(home, overrides={"port": 3333, "host": None}).settings
    assert (settings.port, settings.space, settings.trash_days) == (3333, "variable", 7)


def test_other_tools_names_are_understood_and_ours_win(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "db = '/from/file.db'")
    monkeypatch.setenv("MEMORY_DB_PATH", "/theirs/a.db")
    assert load(home).database == Path("/theirs/a.db")
    monkeypatch.setenv("MCP_MEMORY_SQLITE_PATH", "/theirs/b.db")
    assert load(home).database == Path("/theirs/b.db")
    monkeypatch.setenv("SHOAL_DB", "/ours.db")
    assert load(home).database == Path("/ours.db")
    monkeypatch.setenv("MOCK_SEED", "true")
    assert load(home).settings.seed == "default"


def test_every_alias_means_a_setting() -> None:
    assert set(ALIASES) <= set(Settings.model_fields)


def test_the_shim_reads_variables_in_the_same_order() -> None:
    environ = {"MEMORY_DB_PATH": "/a", "SHOAL_DB": ""}
    assert setting_from_environment("db", environ) == "/a"
    assert setting_from_environment("db", {**environ, "SHOAL_DB": "/b"}) == "/b"
    assert setting_from_environment("db", {}) is None


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("SHOAL_PORT", "many", "port"),
        ("SHOAL_PORT", "70000", "port"),
        ("SHOAL_TRASH_DAYS", "0", "trash_days"),
        ("SHOAL_TIME_ZONE", "Mars/Olympus", "time_zone"),
        ("SHOAL_SPACE", "*", "space"),
        ("SHOAL_SPACE", " ", "space"),
        ("SHOAL_SPACE", "s" * 65, "space"),
        ("SHOAL_TYPES", '{"Bad Name": "note"}', "types"),
        ("SHOAL_TYPES", "{not json", "types"),
        ("SHOAL_HOST", "0.0.0.0", "needs a token"),
        ("SHOAL_TOKEN", "short", "16 characters"),
        ("SHOAL_LOG_LEVEL", "loud", "log_level"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_what_to_do(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, value: str, named: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings) as caught:
        load(home)
    assert named in caught.value.message
    assert "docs/settings.md" in caught.value.mend


def test_a_secret_that_is_refused_is_not_repeated(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "hunter2")
    with pytest.raises(InvalidSettings) as caught:
        load(home)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_masked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    assert "a-token-of-some-length" not in str(masked(load(home).settings))


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "[::]", "192.168.1.5", "10.0.0.1", "169.254.1.1", "fe80::1", "2001:db8::1", "[2001:db8::1]",
     "::ffff:192.168.1.5", "box.example", "localhost.evil.example", "localhost.", "127.0.0.1.evil.example",
     "127.0.0.1, 0.0.0.0", "127.1", "0", "0x7f000001", "2130706433", "*", "127.0.0.1\\n0.0.0.0"],
)  # fmt: skip
def test_an_address_that_others_may_reach_is_refused_without_a_token(
    home: Home, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    for token in (None, ""):
        if token is not None:
            monkeypatch.setenv("SHOAL_TOKEN", token)
        with pytest.raises(InvalidSettings, match="needs a token"):
            load(home, overrides={"host": host})


@pytest.mark.parametrize(
    ("written", "host"),
    [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("127.8.8.8", "127.8.8.8"), ("::1", "::1"),
     ("[::1]", "::1"), (" 127.0.0.1 ", "127.0.0.1"), ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1")],
)  # fmt: skip
def test_an_address_of_this_machine_alone_needs_no_token(home: Home, written: str, host: str) -> None:
    assert load(home, overrides={"host": written}).settings.host == host


@pytest.mark.parametrize("host", ["", "  ", "[]"])
def test_no_address_is_not_taken_for_every_address(home: Home, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    with pytest.raises(InvalidSettings, match="host: an address is missing"):
        load(home, overrides={"host": host})


@pytest.mark.parametrize(
    "token",
    ["", " ", " " * 20, "fifteen-chars-x", "a token with spaces", " a-token-of-some-length", "a-token-of-some-length\t",
     "a-token-of-some\nlength", "ein-schlüssel-mit-umlaut", "一个足够长的访问令牌一个足够长的访问令牌"],
)  # fmt: skip
def test_a_token_that_no_client_could_send_or_anyone_could_guess_is_refused(home: Home, token: str) -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(InvalidSettings, match="token: ") as caught:
            load(home, overrides={"token": token, "host": host})
        assert not token.strip() or token.strip() not in str(caught.value)


def test_an_empty_variable_is_no_token(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "")
    assert load(home).settings.token is None


def test_an_address_that_others_reach_is_allowed_with_a_token(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    assert load(home, overrides={"host": "0.0.0.0"}).settings.host == "0.0.0.0"


def test_an_unknown_variable_is_told_by_name_and_nothing_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_PROT", "9000")
    (warning,) = load(home).warnings
    assert "SHOAL_PROT" in warning


def test_an_unknown_key_in_the_file_is_an_error(home: Home) -> None:
    write(home, "prot = 9000")
    with pytest.raises(InvalidSettings, match="prot: is no setting"):
        load(home)


def test_a_file_that_is_no_toml_is_an_error(home: Home) -> None:
    write(home, "port 9000")
    with pytest.raises(InvalidSettings, match="TOML"):
        load(home)


def test_a_file_that_was_named_must_exist(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match="nowhere"):
        load(home, tmp_path / "nowhere.toml")
    other = tmp_path / "other.toml"
    other.write_text("port = 4444\nallowed_origins = ['https://a.example']")
    monkeypatch.setenv("SHOAL_CONFIG", str(other))
    loaded = load(home)
    assert (loaded.settings.port, loaded.settings.allowed_origins) == (4444, ("https://a.example",))
    assert loaded.port_is_chosen


def test_lists_in_variables_are_written_with_commas(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_ALLOWED_ORIGINS", "https://a.example, https://b.example")
    monkeypatch.setenv("SHOAL_TYPES", '{"recipe_card": "procedure"}')
    settings = load(home).settings
    assert settings.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.types == {"recipe_card": "procedure"}


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("192.168.1.2", False),
        ("me", False),
    ],
)
def test_only_loopback_addresses_are_private(host: str, private: bool) -> None:
    assert is_loopback(host) is private
