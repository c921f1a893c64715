"""A Database that asks the driver where it runs: on D1's binding, in Pyodide, in workerd."""

import ast
import builtins
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.edge.rig.rig import Rig
from worker.stage import stage

from shoal.core.protocols import Database, Row, SqlValue, Statement
from shoal.schema import errors

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("workerd")
TIMEOUT_S = 30.0
TABLES = """
select name from sqlite_master where type = 'table' and substr(name, 1, 7) not in ('sqlite_', '_cf_KV')
  and name not in (select name from pragma_table_list where type = 'shadow')
"""


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the Worker and yield its address."""
    stage(ROOT, folder / "worker")
    shutil.copy(WORKER / "entry.py", folder / "worker")
    rig = Rig(WORKER, folder / "persist", sources=folder / "worker", python_modules=ROOT / "python_modules")
    with rig, rig.watched():
        yield rig.url


@asynccontextmanager
async def database_at(url: str) -> AsyncIterator[Database]:
    """Open the Worker's database, and empty it afterwards."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        database = RemoteDatabase(client)
        yield database
        await database.batch([Statement(f'drop table "{row["name"]}"') for row in await database.query(TABLES)])


class RemoteDatabase:
    """Implements core's Database by asking the Worker."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        return await self._ask("query", sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await self._ask("batch", [(sql, params) for sql, params in statements])

    async def size_bytes(self) -> int:
        return await self._ask("size_bytes")

    async def _ask(self, method: str, *arguments: Any) -> Any:
        answer = await self._client.post("/", content=source((method, arguments)))
        told = ast.literal_eval(answer.text)
        if answer.status_code != 200:
            raise _raised(*told)
        return told


def source(value: Any) -> str:
    """Return Python source for a value, also for those that no database takes."""
    match value:
        case tuple():
            return f"({''.join(f'{source(item)}, ' for item in value)})"
        case list():
            return f"[{', '.join(map(source, value))}]"
        case float():
            return f"float('{value}')"
        case memoryview():
            return f"memoryview({value.tobytes()!r})"
        case _ if type(value) is object:
            return "object()"
        case _:
            return repr(value)


def _raised(name: str, text: str) -> Exception:
    """Return the error that was raised over there."""
    if (known := getattr(errors, name, None)) is not None:
        return known(text, "")
    return getattr(builtins, name, RuntimeError)(text)
