import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.api.oauth.doubles import OWNER_KEY, Clock
from tests.api.oauth.test_passphrase import GOOD, Counting, run
from tests.api.oauth.test_sessions import with_cookies

from shoal.api.oauth import identity, passphrase
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.identity import Reason, SignInRefused
from shoal.api.oauth.sessions import COOKIE, Method
from shoal.core.protocols import Database, Row, SqlValue, Statement

WRONG_KEY = OWNER_KEY[::-1]


async def refused(authority: Authority, given: str) -> tuple[Reason, int]:
    with pytest.raises(SignInRefused) as refusal:
        await identity.sign_in(authority, given)
    assert refusal.value.looked_at is (refusal.value.reason is Reason.WRONG)
    return refusal.value.reason, refusal.value.retry_after_s


async def method(authority: Authority, cookie: str) -> Method | None:
    session = await identity.current(authority, with_cookies(f"{COOKIE}={cookie}"))
    return session and session.method


async def test_the_key_signs_in_however_it_is_typed(authority: Authority):
    for typed in (OWNER_KEY, OWNER_KEY.lower(), " ".join(OWNER_KEY)):
        assert await method(authority, await identity.sign_in(authority, typed)) is Method.KEY


async def test_the_passphrase_signs_in_once_it_is_set(authority: Authority):
    assert await refused(authority, GOOD) == (Reason.WRONG, 0)
    await passphrase.set_passphrase(authority, GOOD)
    assert await method(authority, await identity.sign_in(authority, GOOD)) is Method.PASSPHRASE
    await passphrase.remove_passphrase(authority)
    assert await refused(authority, GOOD) == (Reason.WRONG, 0)


class Quick:
    """Cryptography that takes no time, where it does not matter how long a hash takes."""

    async def pbkdf2_sha256(self, secret: bytes, salt: bytes, iterations: int) -> bytes:
        return hashlib.sha256(secret + salt).digest()

    async def verify_rs256(self, key: Mapping[str, Any], signed: bytes, signature: bytes) -> bool:
        raise AssertionError("no sign-in by passphrase looks at a signature")


class Meanwhile:
    """A database before whose call of a number something else is done."""

    def __init__(self, database: Database, number: int, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._database = database
        self._left = number
        self._act = act

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        await self._before()
        return await self._database.query(sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        await self._before()
        return await self._database.batch(statements)

    async def size_bytes(self) -> int:
        return await self._database.size_bytes()

    async def over(self) -> None:
        """Do it at last, if there was no call of that number. Then sign-ins have no more calls than the test tries."""
        assert self._left <= 1
        if self._left == 1:
            await self._before()

    async def _before(self) -> None:
        self._left -= 1
        if self._left == 0:
            await self._act()


@pytest.mark.parametrize("act", ["change", "remove"])
@pytest.mark.parametrize("number", range(1, 7))
async def test_no_sign_in_outlives_the_change_of_its_passphrase(authority: Authority, number: int, act: str):
    async def meanwhile() -> None:
        if act == "change":
            await passphrase.set_passphrase(authority, GOOD[::-1])
        else:
            await passphrase.remove_passphrase(authority)

    authority = replace(authority, cryptography=Quick())
    await passphrase.set_passphrase(authority, GOOD)
    database = Meanwhile(authority.database, number, meanwhile)
    try:
        cookie = await identity.sign_in(replace(authority, database=database), GOOD)
    except SignInRefused as refusal:
        assert refusal.reason is Reason.WRONG
        return
    await database.over()
    assert await method(authority, cookie) is None


@pytest.mark.parametrize(
    "given", ["", " ", "wrong", WRONG_KEY, "\0", "\udce9" * 20, "ﷺ" * 300, "x" * 1_000_000, "口令"]
)
async def test_anything_else_is_wrong_in_the_same_words(authority: Authority, given: str):
    with pytest.raises(SignInRefused) as refusal:
        await identity.sign_in(authority, given)
    assert refusal.value.as_dict() == {
        "code": "sign_in_refused",
        "message": "This is neither the owner key nor the passphrase.",
        "mend": "Try again, or use the owner key.",
        "reason": "wrong",
        "retry_after_s": 0,
    }
    assert await authority.database.query("select 1 from owner_session") == []


async def test_a_server_without_a_key_lets_nobody_in_by_it(authority: Authority):
    empty = replace(authority, settings=replace(authority.settings, owner_key_sha256=""))
    assert await refused(empty, OWNER_KEY) == (Reason.WRONG, 0)


async def test_whether_a_passphrase_is_set_does_not_show_in_the_work(authority: Authority):
    works: list[list[int]] = []
    for is_set in (False, True):
        if is_set:
            await passphrase.set_passphrase(authority, GOOD)
        counting = Counting()
        await refused(replace(authority, cryptography=counting), "something else")
        works.append(counting.asked)
    assert works[0] == works[1] == [100_000] * 6


async def test_a_locked_network_is_refused_even_the_right_passphrase_without_looking(
    authority: Authority, clock: Clock
):
    await passphrase.set_passphrase(authority, GOOD)
    counting = Counting()
    authority = replace(authority, cryptography=counting)
    found = [await refused(authority, "wrong") for _ in range(5)]
    assert found == [(Reason.WRONG, 0)] * 4 + [(Reason.WRONG, 60)]
    counting.asked.clear()
    clock.forward(seconds=0.5)
    assert await refused(authority, GOOD) == (Reason.LOCKED, 60)
    assert counting.asked == []
    # The key still opens, and forgives.
    await identity.sign_in(authority, OWNER_KEY)
    assert await method(authority, await identity.sign_in(authority, GOOD)) is Method.PASSPHRASE


async def test_the_key_is_locked_after_twenty(authority: Authority, clock: Clock):
    for _ in range(19):
        assert await refused(authority, WRONG_KEY) == (Reason.WRONG, 0)
    assert await refused(authority, WRONG_KEY) == (Reason.WRONG, 60)
    assert await refused(authority, OWNER_KEY) == (Reason.LOCKED, 60)
    clock.forward(seconds=60)
    assert await identity.sign_in(authority, OWNER_KEY)


async def test_after_a_hundred_wrong_passphrases_only_the_key_signs_in(authority: Authority, clock: Clock):
    await passphrase.set_passphrase(authority, GOOD)
    await run(
        authority, "insert into owner_attempt values ('passphrase', 99, cast(?1 as integer), 0)", (clock() - 1_000,)
    )
    assert await refused(replace(authority, network="x"), "wrong") == (Reason.WRONG, 3_600)
    assert await refused(authority, GOOD) == (Reason.ONLY_KEY, 3_600)
    assert await identity.sign_in(authority, OWNER_KEY)
    clock.forward(seconds=3_600)
    assert await identity.sign_in(authority, GOOD)


async def test_of_parallel_guesses_at_the_limit_one_is_looked_at(authority: Authority):
    await passphrase.set_passphrase(authority, GOOD)
    for _ in range(4):
        await refused(authority, "wrong")
    counting = Counting()
    together = replace(authority, cryptography=counting)
    found = await asyncio.gather(*(refused(together, f"guess {n}") for n in range(10)))
    assert sorted(found) == [(Reason.LOCKED, 60)] * 9 + [(Reason.WRONG, 60)]
    assert len(counting.asked) == 6


async def test_a_passphrase_of_another_version_is_told_and_the_key_still_signs_in(authority: Authority):
    await passphrase.set_passphrase(authority, GOOD)
    await run(authority, "update owner_passphrase set scheme = 'argon2id'")
    with pytest.raises(passphrase.PassphraseUnusable):
        await identity.sign_in(authority, GOOD)
    assert await identity.sign_in(authority, OWNER_KEY)


async def test_each_sign_in_brings_another_cookie(authority: Authority):
    assert len({await identity.sign_in(authority, OWNER_KEY) for _ in range(3)}) == 3
