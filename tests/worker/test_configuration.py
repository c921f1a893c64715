"""What wrangler.toml and the secrets may say."""

from types import SimpleNamespace

import pytest

from shoal.api.oauth.authority import OAuthSettings
from shoal.schema.errors import NotConfigured
from shoal.worker.configuration import Variables, binding, no_owner, parse, read
from shoal.worker.models import DEFAULT

HASH = "ab" * 32


def test_an_empty_environment_gives_the_defaults_and_no_owner():
    told = read(SimpleNamespace())
    assert not told.has_owner
    assert told.model is DEFAULT
    assert (told.origins, told.trash_days, told.time_zone) == (frozenset(), 30, "UTC")
    assert (told.public_url, told.oauth) == ("", OAuthSettings(""))


def test_everything_that_is_said_is_taken():
    env = SimpleNamespace(
        OWNER_KEY_SHA256=f" {HASH.upper()} ",
        MODEL="@cf/baai/bge-large-en-v1.5",
        ALLOWED_ORIGINS="https://App.example.com, http://localhost:*",
        TRASH_DAYS="7",
        TIME_ZONE="Asia/Shanghai",
        PUBLIC_URL="https://Memory.example.com/",
        ACCESS_TOKEN_MINUTES="5",
        REFRESH_TOKEN_DAYS="365",
        CLIENT_REGISTRATION="OFF",
        CLIENT_DOCUMENTS="off",
        APP_SCHEMES="Cursor, my-app",
        ACCESS_TEAM="example.cloudflareaccess.com",
        ACCESS_AUDIENCE=HASH,
        LOG_DAYS="1",
    )
    told = read(env)
    assert told.has_owner
    assert told.oauth.owner_key_sha256 == HASH
    assert told.model.name == "@cf/baai/bge-large-en-v1.5"
    assert told.origins == {"https://app.example.com", "http://localhost:*"}
    assert (told.trash_days, told.time_zone) == (7, "Asia/Shanghai")
    assert told.public_url == "https://memory.example.com"
    assert told.oauth == OAuthSettings(
        owner_key_sha256=HASH,
        access_s=300,
        refresh_idle_s=365 * 86_400,
        registration=False,
        documents=False,
        app_schemes=("cursor", "my-app"),
        access_team="example.cloudflareaccess.com",
        access_audience=HASH,
        log_days=1,
        default_time_zone="Asia/Shanghai",
    )


def test_the_settings_of_oauth_are_made_once():
    assert read(SimpleNamespace()).oauth is read(SimpleNamespace(OTHER="x")).oauth


@pytest.mark.parametrize(
    "url", ["https://m.example.com:8443", "http://localhost:8378", "http://127.0.0.1", "http://[::1]:1"]
)
def test_a_public_url_is_an_origin_or_one_of_this_machine(url: str):
    assert parse(Variables(PUBLIC_URL=url)).public_url == url


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        (Variables(OWNER_KEY_SHA256="the-key-itself"), "OWNER_KEY_SHA256"),
        (Variables(MODEL="none"), "MODEL"),
        (Variables(ALLOWED_ORIGINS="app.example.com"), "ALLOWED_ORIGINS"),
        (Variables(ALLOWED_ORIGINS="https://app.example.com/path"), "ALLOWED_ORIGINS"),
        (Variables(TRASH_DAYS="0"), "TRASH_DAYS"),
        (Variables(TRASH_DAYS="soon"), "TRASH_DAYS"),
        (Variables(TRASH_DAYS="3651"), "TRASH_DAYS"),
        (Variables(TIME_ZONE="Mars/Olympus"), "TIME_ZONE"),
        (Variables(PUBLIC_URL="m.example.com"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="http://m.example.com"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="https://m.example.com/path"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="https://user@m.example.com"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="https://m.example.com?x"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="https://-.example.com"), "PUBLIC_URL"),
        (Variables(PUBLIC_URL="http://localhost.example.com"), "PUBLIC_URL"),
        (Variables(ACCESS_TOKEN_MINUTES="4"), "ACCESS_TOKEN_MINUTES"),
        (Variables(ACCESS_TOKEN_MINUTES="1441"), "ACCESS_TOKEN_MINUTES"),
        (Variables(ACCESS_TOKEN_MINUTES="\u0665\u0660"), "ACCESS_TOKEN_MINUTES"),
        (Variables(REFRESH_TOKEN_DAYS="0"), "REFRESH_TOKEN_DAYS"),
        (Variables(REFRESH_TOKEN_DAYS="366"), "REFRESH_TOKEN_DAYS"),
        (Variables(CLIENT_REGISTRATION="yes"), "CLIENT_REGISTRATION"),
        (Variables(CLIENT_DOCUMENTS="1"), "CLIENT_DOCUMENTS"),
        (Variables(APP_SCHEMES="cursor, javascript"), "APP_SCHEMES"),
        (Variables(APP_SCHEMES="https"), "APP_SCHEMES"),
        (Variables(APP_SCHEMES="cursor://"), "APP_SCHEMES"),
        (Variables(ACCESS_TEAM="example.cloudflareaccess.com"), "ACCESS_AUDIENCE"),
        (Variables(ACCESS_AUDIENCE=HASH), "ACCESS_TEAM"),
        (Variables(ACCESS_TEAM="https://example.cloudflareaccess.com", ACCESS_AUDIENCE=HASH), "ACCESS_TEAM"),
        (Variables(ACCESS_TEAM="example.com", ACCESS_AUDIENCE=HASH), "ACCESS_TEAM"),
        (Variables(ACCESS_TEAM="example.cloudflareaccess.com", ACCESS_AUDIENCE="tag"), "ACCESS_AUDIENCE"),
        (Variables(LOG_DAYS="0"), "LOG_DAYS"),
    ],
)
def test_what_cant_be_used_is_named(variables: Variables, named: str):
    with pytest.raises(NotConfigured, match=named):
        parse(variables)


def test_a_key_in_the_place_of_its_hash_is_not_repeated():
    with pytest.raises(NotConfigured) as refused:
        parse(Variables(OWNER_KEY_SHA256="the-key-itself"))
    assert "the-key-itself" not in str(refused.value.as_dict())


def test_a_missing_key_says_how_to_set_it():
    assert "wrangler secret put OWNER_KEY_SHA256" in no_owner().mend


def test_a_missing_binding_is_named():
    env = SimpleNamespace(DB="there")
    assert binding(env, "DB") == "there"
    with pytest.raises(NotConfigured, match="VECTORIZE"):
        binding(env, "VECTORIZE")
