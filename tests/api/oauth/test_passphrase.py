import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from starlette.datastructures import Headers
from tests.api.oauth.doubles import OWNER_KEY, Clock, PythonCryptography

from shoal.api.oauth import passphrase, sessions
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.passphrase import PassphraseRefused, PassphraseUnusable, Reason, accepted, stretch
from shoal.api.oauth.sessions import Method, Session
from shoal.core.protocols import SqlValue, Statement

GOOD = "lantern orchid mossy anvil"


class Counting(PythonCryptography):
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def pbkdf2_sha256(self, secret: bytes, salt: bytes, iterations: int) -> bytes:
        self.asked.append(iterations)
        return await super().pbkdf2_sha256(secret, salt, iterations)


async def run(authority: Authority, sql: str, params: Sequence[SqlValue] = ()) -> None:
    await authority.database.batch([Statement(sql, tuple(params))])


async def signed_in(authority: Authority) -> Session:
    value = await sessions.begin(authority, Method.KEY)
    found = await sessions.current(authority, Headers({"cookie": f"{sessions.COOKIE}={value}"}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.TOO_SHORT),
        ("x7#kP9-22-q4T", Reason.TOO_SHORT),
        ("   x7#kP9-22-q4T   ", Reason.TOO_SHORT),
        ("\u3000" * 20, Reason.TOO_SHORT),
        ("lantern orchid " * 18, Reason.TOO_LONG),
        ("é" * 1_000_000, Reason.TOO_LONG),
        ("ﷺ" * 20, Reason.TOO_LONG),
        ("correct horse battery staple", Reason.COMMON),
        ("Ｐassword１２３４５６７", Reason.COMMON),
        (OWNER_KEY.lower(), Reason.LIKE_A_KEY),
        ("Ａ" + OWNER_KEY[1:], Reason.LIKE_A_KEY),
        (" " * 300 + OWNER_KEY, Reason.LIKE_A_KEY),
        ("abba dabba gabba labba mabba nabba tub", Reason.LIKE_A_KEY),
        ("lantern orchid\nmossy anvil", Reason.UNREADABLE),
        ("lantern orchid mossy anvil\x00.", Reason.UNREADABLE),
        ("lantern orchid \udce9 anvil", Reason.UNREADABLE),
    ],
)
def test_a_passphrase_that_is_not_taken_is_refused_with_the_reason(text: str, reason: Reason):
    with pytest.raises(PassphraseRefused) as refused:
        accepted(text)
    assert refused.value.reason is reason
    assert refused.value.details == {"reason": str(reason)}
    message, mend = refused.value.chinese
    assert all(said and said.endswith("。") for said in (message, mend))
    assert text.strip() == "" or text.strip() not in str(refused.value)


@pytest.mark.parametrize(
    "text", [GOOD, "x7#kP9-22-q4Tz", "紫色的河马在图书馆跳探戈舞蹈队", "é" * 2 + "lantern orchid " * 16]
)
def test_others_are_taken(text: str):
    assert accepted(text)


def test_the_same_characters_composed_differently_are_the_same_passphrase():
    assert accepted(" café au lait ou thé ? ") == accepted("cafe\u0301 au lait ou the\u0301 ?")
    assert accepted("ｌantern　orchid mossy") == accepted("lantern orchid mossy")


@pytest.mark.parametrize(("iterations", "rounds"), [(1, 1), (1000, 1), (7, 5)])
async def test_the_chain_is_pbkdf2_upon_pbkdf2(iterations: int, rounds: int):
    secret, salt = GOOD.encode(), bytes(range(16))
    expected = b""
    for _ in range(rounds):
        expected = hashlib.pbkdf2_hmac("sha256", secret, salt + expected, iterations)
    assert await stretch(PythonCryptography(), secret, salt, iterations, rounds) == expected


async def test_a_known_vector_of_pbkdf2_comes_out():
    """RFC 7914, 11."""
    found = await stretch(PythonCryptography(), b"passwd", b"salt", 1, 1)
    assert found.hex() == "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"


async def test_with_none_set_nothing_is_the_passphrase_and_the_work_is_the_same(authority: Authority):
    counting = Counting()
    authority = replace(authority, cryptography=counting)
    for text in (GOOD, "", "x" * 5000, "\udce9", OWNER_KEY):
        assert not await passphrase.check(authority, text)
    assert counting.asked == [100_000] * 6 * 5
    assert not await passphrase.is_set(authority)


async def test_what_was_set_is_known_again_and_nothing_else(authority: Authority):
    counting = Counting()
    authority = replace(authority, cryptography=counting)
    await passphrase.set_passphrase(authority, f" {GOOD} ")
    assert await passphrase.is_set(authority)
    assert await passphrase.check(authority, GOOD)
    for text in (GOOD.upper(), GOOD[:-1], GOOD + "x", "", "\0", "x" * 5000, "\udce9"):
        assert not await passphrase.check(authority, text)
    assert set(counting.asked) == {100_000}
    assert len(counting.asked) == 6 * 9
    (row,) = await authority.database.query("select * from owner_passphrase")
    assert (row["scheme"], row["iterations"], row["rounds"]) == ("pbkdf2-sha256", 100_000, 6)
    assert GOOD not in repr(row)


async def test_a_hash_of_other_counts_is_checked_with_those(authority: Authority):
    salt = bytes(range(24))
    first = hashlib.pbkdf2_hmac("sha256", GOOD.encode(), salt, 1234)
    second = hashlib.pbkdf2_hmac("sha256", GOOD.encode(), salt + first, 1234)
    await run(
        authority,
        "insert into owner_passphrase values (1, 'pbkdf2-sha256', 1234, 2, ?1, ?2, 0)",
        (salt.hex(), second.hex()),
    )
    counting = Counting()
    authority = replace(authority, cryptography=counting)
    assert await passphrase.check(authority, GOOD)
    assert not await passphrase.check(authority, GOOD + "x")
    assert counting.asked == [1234] * 4
    await passphrase.set_passphrase(authority, "tidal.rhubarb.98")
    assert await passphrase.check(authority, "tidal.rhubarb.98")
    assert set(counting.asked[4:]) == {100_000}


@pytest.mark.parametrize(
    "spoilt",
    [
        "scheme = 'argon2id'", "iterations = 600000", "iterations = 0", "iterations = 'many'", "rounds = 0",
        "rounds = 61", "salt = ''",
        "salt = 'zz'", "hash = 'abcd'", "hash = ''",
    ],
)  # fmt: skip
async def test_a_hash_that_cannot_be_checked_here_is_told_with_the_mend(authority: Authority, spoilt: str):
    await passphrase.set_passphrase(authority, GOOD)
    await run(authority, f"update owner_passphrase set {spoilt}")
    with pytest.raises(PassphraseUnusable, match="owner key and set the passphrase anew"):
        await passphrase.check(authority, GOOD)
    await passphrase.set_passphrase(authority, GOOD)
    assert await passphrase.check(authority, GOOD)


async def test_two_equal_passphrases_are_kept_differently(authority: Authority):
    await passphrase.set_passphrase(authority, GOOD)
    one = await authority.database.query("select salt, hash from owner_passphrase")
    await passphrase.set_passphrase(authority, GOOD)
    assert await authority.database.query("select salt, hash from owner_passphrase") != one


async def test_a_change_ends_all_other_sessions_and_a_refused_one_none(authority: Authority, clock: Clock):
    mine, other = await signed_in(authority), await signed_in(authority)
    with pytest.raises(PassphraseRefused):
        await passphrase.set_passphrase(authority, "short", mine)
    assert len(await authority.database.query("select 1 from owner_session")) == 2
    await passphrase.set_passphrase(authority, GOOD, mine)
    rows = await authority.database.query("select sha256 from owner_session")
    assert [row["sha256"] for row in rows] == [mine.sha256] != [other.sha256]
    await signed_in(authority)
    await passphrase.remove_passphrase(authority, mine)
    assert len(await authority.database.query("select sha256 from owner_session")) == 1
    assert not await passphrase.is_set(authority)
    assert not await passphrase.check(authority, GOOD)
