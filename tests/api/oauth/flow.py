"""The steps by which an app is let in, for tests of what comes after; and databases that let others in between."""

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.api.oauth import codes, grants, tokens
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.grants import Approval
from shoal.api.oauth.records import Client, ClientKind, Reach
from shoal.api.oauth.tokens import TokenAnswer
from shoal.core.caller import Scope
from shoal.core.protocols import Database, Row, SqlValue, Statement

REDIRECT = "https://app.example/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
READ_WRITE = frozenset({Scope.READ, Scope.WRITE})
MAIN = Reach({"main": READ_WRITE})


def app(name: str = "app") -> Client:
    return Client(f"{name}-id", ClientKind.REGISTERED, name.title(), (REDIRECT,))


async def register(authority: Authority, client: Client) -> None:
    """Have the client known for a day."""
    now = authority.clock()
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_client (id, kind, name, redirect_uris, auth_method, created_at, expires_at)"
                " values (?1, ?2, ?3, '[]', 'none', ?4, ?5)",
                (client.id, str(client.kind), client.name, now, now + 86_400_000),
            )
        ]
    )


async def approve(authority: Authority, client: Client | None = None, **different: Any) -> str:
    """Return the code of an approval, which is the usual one but for what is different."""
    usual = Approval(
        client=client or app(),
        redirect_uri=REDIRECT,
        redirect_uri_given=True,
        challenge=CHALLENGE,
        scopes=READ_WRITE,
        reach=MAIN,
        resource=authority.resource,
    )
    return await grants.approve(authority, replace(usual, **different))


async def exchange(authority: Authority, code: str, client: Client | None = None, **form: str) -> TokenAnswer:
    """Exchange a code; fields of the form that are given empty are left out."""
    usual = {"code": code, "redirect_uri": REDIRECT, "code_verifier": VERIFIER}
    sent = {name: value for name, value in {**usual, **form}.items() if value}
    return await codes.exchange(authority, client or app(), sent)


async def refresh(authority: Authority, token: Any, client: Client | None = None, **form: str) -> TokenAnswer:
    return await tokens.refresh(authority, client or app(), {"refresh_token": str(token), **form})


async def connected(authority: Authority, **different: Any) -> TokenAnswer:
    """Return the first tokens of an app that was let in."""
    return await exchange(authority, await approve(authority, **different))


async def rows(authority: Authority, sql: str, *params: SqlValue) -> list[Row]:
    return await authority.database.query(sql, params)


async def ended_because(authority: Authority) -> list[Any]:
    """Return why each grant ended, None for those that have not."""
    return [row["revoked_because"] for row in await rows(authority, "select revoked_because from oauth_grant")]


class Together:
    """A database in which so many callers have all read before the first of them writes, in the order of reading."""

    def __init__(self, database: Database, callers: int = 2) -> None:
        self._database = database
        self._callers = callers
        self._waiting: list[asyncio.Future[None]] = []

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        found = await self._database.query(sql, params)
        if len(self._waiting) < self._callers - 1:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]
            return found
        for waiting in self._waiting:
            waiting.set_result(None)
        # Those who waited go on first.
        await asyncio.sleep(0)
        return found

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await self._database.batch(statements)

    async def size_bytes(self) -> int:
        return await self._database.size_bytes()


class Counting:
    """A database that counts what it is asked, and fails when it is told to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = 0
        self.batches: list[int] = []
        self.failure: Exception | None = None

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        self.queries += 1
        return await self._database.query(sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self.failure is not None:
            raise self.failure
        self.batches.append(len(statements))
        return await self._database.batch(statements)

    async def size_bytes(self) -> int:
        return await self._database.size_bytes()
