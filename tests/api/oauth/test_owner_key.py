import os

import pytest
from tests.api.oauth.doubles import OWNER_KEY, seeded

from shoal.api.oauth.authority import sha256
from shoal.api.oauth.owner_key import digest, is_owner_key, make, normalise


def test_a_key_is_eight_groups_of_four_and_all_of_its_chance_is_in_it():
    key = make(os.urandom)
    assert [len(group) for group in key.split("-")] == [4] * 8
    assert normalise(key) == key.replace("-", "")
    assert make(lambda n: b"\0" * n) != make(lambda n: b"\0" * (n - 1) + b"\1")
    assert make(seeded()) == make(seeded())


@pytest.mark.parametrize(
    "typed",
    [
        OWNER_KEY.lower(), f"  {OWNER_KEY}\n", " ".join(OWNER_KEY), "-".join(OWNER_KEY),
        f"{OWNER_KEY[:16]} -\t- {OWNER_KEY[16:].lower()}",
    ],
)  # fmt: skip
def test_case_spaces_and_dashes_do_not_matter(typed: str):
    assert normalise(typed) == OWNER_KEY
    assert digest(typed) == sha256(OWNER_KEY)
    assert is_owner_key(typed, sha256(OWNER_KEY))
    assert is_owner_key(typed, sha256(OWNER_KEY).upper())


@pytest.mark.parametrize(
    "typed",
    [
        "", OWNER_KEY[:-1], OWNER_KEY + "A", OWNER_KEY[:-1] + "0", OWNER_KEY[:-1] + "1", OWNER_KEY[:-1] + "8",
        OWNER_KEY[:-1] + "9", OWNER_KEY[:-1] + "=", OWNER_KEY[:-1] + "\0", OWNER_KEY[:-1] + "Ａ",
        OWNER_KEY[:-1] + "ı", OWNER_KEY[:-1] + "\udce9", OWNER_KEY + "_", "A" * 1_000_000, " " * 300 + OWNER_KEY,
    ],
)  # fmt: skip
def test_nothing_else_is_forgiven(typed: str):
    assert normalise(typed) is None
    assert digest(typed) is None
    assert not is_owner_key(typed, sha256(OWNER_KEY))


@pytest.mark.parametrize("kept", ["", "é", sha256(OWNER_KEY)[:-1], sha256("another"), OWNER_KEY])
def test_a_hash_that_is_not_the_keys_lets_nobody_in(kept: str):
    assert not is_owner_key(OWNER_KEY, kept)


def test_the_hashes_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    monkeypatch.setattr("shoal.api.oauth.owner_key.hmac.compare_digest", compare)
    is_owner_key(OWNER_KEY, sha256(OWNER_KEY))
    is_owner_key("B" + OWNER_KEY[1:], sha256(OWNER_KEY))
    assert [len(a) == len(b) == 64 for a, b in compared] == [True, True]
