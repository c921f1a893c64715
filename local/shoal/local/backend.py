"""What a command works on: the running daemon over REST, or the database opened in this process."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from shoal.local.client import NotSent, OutcomeUnknown, find_daemon, request
from shoal.local.home import DaemonRecord
from shoal.local.settings import Loaded
from shoal.local.zone import machine_zone
from shoal.schema.errors import DaemonRunning, DaemonUnreachable, ModelError, NotFound, ShoalError, WasForgotten
from shoal.schema.models import (
    DeleteAnswer,
    DeleteRequest,
    FindAnswer,
    FindRequest,
    GetAnswer,
    GetRequest,
    ReviveAnswer,
    StatsAnswer,
    StoreAnswer,
    StoreBatchAnswer,
    StoreRequest,
    StoreStatus,
    UpdateAnswer,
    UpdateRequest,
)

if TYPE_CHECKING:
    from shoal.core.caller import Caller
    from shoal.core.service import Memory

EMBED_BEFORE_FIND: Final = 64
"""Memories that a search without a daemon embeds first: about two seconds of the model's time at most."""

A = TypeVar("A", bound=BaseModel)
R = TypeVar("R", StoreRequest, FindRequest, GetRequest, UpdateRequest, DeleteRequest)


class Backend(Protocol):
    """The Memory service, wherever it runs."""

    async def store(self, asked: StoreRequest) -> StoreAnswer | StoreBatchAnswer:
        """Store one memory or several."""
        ...

    async def find(self, asked: FindRequest) -> FindAnswer:
        """Search."""
        ...

    async def get(self, asked: GetRequest) -> GetAnswer:
        """Read by id or page by page."""
        ...

    async def update(self, asked: UpdateRequest) -> UpdateAnswer:
        """Change one memory."""
        ...

    async def delete(self, asked: DeleteRequest) -> DeleteAnswer:
        """Move to the trash, or purge."""
        ...

    async def revive(self, ids: Sequence[str]) -> ReviveAnswer:
        """Take out of the trash."""
        ...

    async def stats(self) -> StatsAnswer:
        """Count."""
        ...

    async def embed_all(self, progress: Callable[[float], None]) -> None:
        """Make the vectors that are missing. A daemon does so by itself, so nobody waits for it here."""
        ...


class InProcess:
    """The service in this process."""

    def __init__(self, memory: "Memory", caller: "Caller", space: str) -> None:
        self._memory = memory
        self._caller = caller
        self._space = space

    async def store(self, asked: StoreRequest) -> StoreAnswer | StoreBatchAnswer:
        """Store. The vector is made by whoever searches next, since loading the model takes longer than all else."""
        answer = await self._memory.store(_within(asked, self._space), self._caller)
        if isinstance(answer, StoreAnswer) and answer.status is StoreStatus.WAS_FORGOTTEN:
            raise WasForgotten(
                "This text was deleted before; nothing was written.", "Add --revive to bring it back.", id=answer.id
            )
        return answer

    async def find(self, asked: FindRequest) -> FindAnswer:
        """Search, after the vectors of what was stored lately have been made."""
        with suppress(ModelError):  # The answer's notes say so.
            await self._memory.embed_pending(EMBED_BEFORE_FIND)
        return await self._memory.find(_within(asked, self._space), self._caller)

    async def get(self, asked: GetRequest) -> GetAnswer:
        """Read by id or page by page."""
        return await self._memory.get(_within(asked, self._space), self._caller)

    async def update(self, asked: UpdateRequest) -> UpdateAnswer:
        """Change one memory."""
        return await self._memory.update(_within(asked, self._space), self._caller)

    async def delete(self, asked: DeleteRequest) -> DeleteAnswer:
        """Move to the trash, or purge."""
        return await self._memory.delete(_within(asked, self._space), self._caller)

    async def revive(self, ids: Sequence[str]) -> ReviveAnswer:
        """Take out of the trash."""
        return await self._memory.revive(ids, self._caller)

    async def stats(self) -> StatsAnswer:
        """Count."""
        return await self._memory.stats(self._caller)

    async def embed_all(self, progress: Callable[[float], None]) -> None:
        """Make the vectors that are missing. Raises ModelError."""
        total = max(1, await self._memory.pending())
        while await self._memory.embed_pending(EMBED_BEFORE_FIND):
            progress(1 - await self._memory.pending() / total)


class OverRest:
    """The service of the running daemon."""

    def __init__(self, record: DaemonRecord, time_zone: str, space: str) -> None:
        self._record = record
        self._space = space
        self._headers = {"content-type": "application/json", "shoal-time-zone": time_zone}

    async def store(self, asked: StoreRequest) -> StoreAnswer | StoreBatchAnswer:
        """Store one memory or several."""
        answer = StoreAnswer if asked.items is None else StoreBatchAnswer
        return await self._call(answer, "POST", "/memories", _within(asked, self._space))

    async def find(self, asked: FindRequest) -> FindAnswer:
        """Search."""
        return await self._call(FindAnswer, "POST", "/search", _within(asked, self._space))

    async def get(self, asked: GetRequest) -> GetAnswer:
        """Read by id or page by page."""
        query = urlencode(
            {name: _as_text(value) for name, value in _fields(_within(asked, self._space)).items()},
            doseq=True,
            encoding="utf-8",
        )
        return await self._call(GetAnswer, "GET", f"/memories?{query}")

    async def update(self, asked: UpdateRequest) -> UpdateAnswer:
        """Change one memory."""
        return await self._call(
            UpdateAnswer, "PATCH", f"/memories/{quote(asked.id, safe='')}", _within(asked, self._space)
        )

    async def delete(self, asked: DeleteRequest) -> DeleteAnswer:
        """Move to the trash, or purge."""
        return await self._call(DeleteAnswer, "POST", "/memories/delete", _within(asked, self._space))

    async def revive(self, ids: Sequence[str]) -> ReviveAnswer:
        """Take out of the trash."""
        revived: list[str] = []
        missing: list[str] = []
        for one in ids:
            try:
                await self._call(ReviveAnswer, "POST", f"/memories/{quote(one, safe='')}/revive")
                revived.append(one)
            except NotFound:
                missing.append(one)
        return ReviveAnswer(ids=revived, not_found=missing)

    async def stats(self) -> StatsAnswer:
        """Count."""
        return await self._call(StatsAnswer, "GET", "/stats")

    async def embed_all(self, progress: Callable[[float], None]) -> None:
        """Do nothing: the daemon has begun by itself."""

    async def _call(self, answer: type[A], method: str, path: str, asked: BaseModel | None = None) -> A:
        """Send a request. Raises what the daemon raised, or DaemonUnreachable."""
        body = None if asked is None else json.dumps(_fields(asked), ensure_ascii=False).encode()
        try:
            reply = await asyncio.to_thread(request, self._record, method, f"/api/v1{path}", body, self._headers)
            said = reply.json()
        except (NotSent, OutcomeUnknown, ValueError) as error:
            raise DaemonUnreachable(
                f"The daemon at {self._record.url} did not answer: {error}.", "Run `shoal doctor`, then try again."
            ) from error
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise error_from(said["error"])
        return answer.model_validate(said)


def _within(asked: R, space: str) -> R:
    """Return the request in the space of the settings unless it names one."""
    return asked if asked.space is not None else asked.model_copy(update={"space": space})


def _fields(asked: BaseModel) -> dict[str, Any]:
    return asked.model_dump(mode="json", exclude_unset=True)


def _as_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def error_from(said: dict[str, Any]) -> ShoalError:
    """Return the error that a daemon told of, in its own class so far as this version knows it."""
    details = {key: value for key, value in said.items() if key not in ("code", "message", "mend")}
    return _classes().get(said["code"], ShoalError)(said["message"], said["mend"], **details)


def _classes() -> dict[str, type[ShoalError]]:
    found: dict[str, type[ShoalError]] = {}
    waiting = [ShoalError]
    while waiting:
        one = waiting.pop()
        found[one.code] = one
        waiting.extend(one.__subclasses__())
    return found


def daemon_of(loaded: Loaded) -> DaemonRecord | None:
    """Return the daemon that runs, None without one. Raises DaemonRunning when it serves another file."""
    record = find_daemon(loaded.home)
    if record is not None and Path(record.database) != loaded.database:
        raise DaemonRunning(
            f"The daemon of this home serves {record.database}, not {loaded.database}.",
            "Give the other database its own SHOAL_HOME, or stop the daemon first.",
            url=record.url,
        )
    return record


@asynccontextmanager
async def open_backend(
    loaded: Loaded, model_progress: Callable[[float], None] | None = None
) -> AsyncGenerator[Backend]:
    """Give the daemon when one runs, else the database. Raises DaemonRunning when it serves another file.

    `model_progress` is that of `open_runtime`.
    """
    record, space = daemon_of(loaded), loaded.settings.space
    if record is None:
        # Drivers and service are imported only here: with a daemon, a command does without them.
        from shoal.local.runtime import local_caller, open_runtime

        async with open_runtime(loaded, model_progress) as runtime:
            yield InProcess(runtime.memory, local_caller(loaded, "cli", clamps=False), space)
    else:
        yield OverRest(record, loaded.settings.time_zone or machine_zone(), space)
