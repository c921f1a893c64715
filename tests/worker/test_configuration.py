"""What wrangler.toml and the secrets may say."""

from types import SimpleNamespace

import pytest

from shoal.schema.errors import NotConfigured
from shoal.worker.configuration import Variables, binding, no_token, parse, read
from shoal.worker.models import DEFAULT

HASH = "ab" * 32


def test_an_empty_environment_gives_the_defaults_and_no_token():
    told = read(SimpleNamespace())
    assert told.token_sha256 is None
    assert told.model is DEFAULT
    assert (told.origins, told.trash_days, told.time_zone) == (frozenset(), 30, "UTC")


def test_everything_that_is_said_is_taken():
    env = SimpleNamespace(
        TOKEN_SHA256=f" {HASH.upper()} ",
        MODEL="@cf/baai/bge-large-en-v1.5",
        ALLOWED_ORIGINS="https://App.example.com, http://localhost:*",
        TRASH_DAYS="7",
        TIME_ZONE="Asia/Shanghai",
    )
    told = read(env)
    assert told.token_sha256 == HASH
    assert told.model.name == "@cf/baai/bge-large-en-v1.5"
    assert told.origins == {"https://app.example.com", "http://localhost:*"}
    assert (told.trash_days, told.time_zone) == (7, "Asia/Shanghai")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        (Variables(TOKEN_SHA256="the-token-itself"), "TOKEN_SHA256"),
        (Variables(MODEL="none"), "MODEL"),
        (Variables(ALLOWED_ORIGINS="app.example.com"), "ALLOWED_ORIGINS"),
        (Variables(ALLOWED_ORIGINS="https://app.example.com/path"), "ALLOWED_ORIGINS"),
        (Variables(TRASH_DAYS="0"), "TRASH_DAYS"),
        (Variables(TRASH_DAYS="soon"), "TRASH_DAYS"),
        (Variables(TRASH_DAYS="3651"), "TRASH_DAYS"),
        (Variables(TIME_ZONE="Mars/Olympus"), "TIME_ZONE"),
    ],
)
def test_what_cant_be_used_is_named(variables: Variables, named: str):
    with pytest.raises(NotConfigured, match=named):
        parse(variables)


def test_a_token_in_the_place_of_its_hash_is_not_repeated():
    with pytest.raises(NotConfigured) as refused:
        parse(Variables(TOKEN_SHA256="the-token-itself"))
    assert "the-token-itself" not in str(refused.value.as_dict())


def test_a_missing_token_says_how_to_set_it():
    assert "wrangler secret put TOKEN_SHA256" in no_token().mend


def test_a_missing_binding_is_named():
    env = SimpleNamespace(DB="there")
    assert binding(env, "DB") == "there"
    with pytest.raises(NotConfigured, match="VECTORIZE"):
        binding(env, "VECTORIZE")
