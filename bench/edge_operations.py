"""What clients of the edge do, one request each, for the benchmark to time and count."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.corpus import Note
from bench.harness import Client

BATCH: Final = 100
"""Memories stored in one request, and"""
BATCHES: Final = 5
"""how many such requests are made."""
PAGES: Final = 20
"""Pages of the list that are read by turns."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """Requests of one kind; each differs from the others, as a client's do."""

    name: str
    make: Callable[[], Call]
    """Returns the next request, not made yet."""
    count: int
    """How many of them are to be measured."""


class Clientele:
    """Makes the calls. `planted` are in the memory already, by their ids; each of `new` is stored at most once."""

    def __init__(self, client: Client, planted: Mapping[str, Note], new: Iterator[Note]) -> None:
        self._client = client
        # From the end: what lies at the beginning is changed and deleted meanwhile.
        self._known = itertools.cycle(reversed(list(planted.values())))
        self._ids = itertools.cycle(planted)
        self._asked = itertools.cycle(planted.values())
        self._new = new
        self._trashed: deque[str] = deque()
        self._revived: deque[str] = deque()
        self._pages = itertools.cycle(range(1, PAGES + 1))

    def operations(self, often: int, seldom: int) -> list[Operation]:
        """Return everything that is measured: what has a target `often` times, the rest `seldom` times."""
        return [
            Operation("health", lambda: lambda: self._client.call("GET", "/healthz"), often),
            Operation("store", self.store, often),
            Operation("store_repeat", lambda: self.store(next(self._known)), seldom),
            Operation("find", self.find, often),
            Operation("find_tags", lambda: self.find(tags=["proj:atlas", "ops"]), seldom),
            Operation("find_all_spaces", lambda: self.find(space="*"), seldom),
            Operation("get", self.get, seldom),
            Operation("list", self.list, seldom),
            Operation("update", self.update, seldom),
            Operation("supersede", self.supersede, seldom),
            Operation("delete", self.delete, seldom),
            Operation("revive", self.revive, seldom),
            Operation("purge", self.purge, seldom),
            Operation("stats", lambda: lambda: self._client.call("GET", "/api/v1/stats"), seldom),
            Operation("mcp_tools_list", lambda: self.mcp("tools/list"), seldom),
            Operation("mcp_call", self.mcp_find, often),
            Operation("store_100", lambda: self.store_all(BATCH), BATCHES),
        ]

    def mixed(self, count: int) -> Iterator[Call]:
        """Yield what a busy day brings, by turns, `count` requests."""
        for number in range(count):
            match number % 10:
                case 0 | 1:
                    yield self.store()
                case 2 | 3 | 4:
                    yield self.find()
                case 5:
                    yield self.get()
                case 6:
                    yield self.list()
                case 7:
                    yield self.update()
                case 8:
                    yield self.mcp_find()
                case _:
                    yield self.delete()

    def store(self, note: Note | None = None) -> Call:
        """Store a memory; a new one unless one is given."""
        given = note or next(self._new)
        return lambda: self._client.call("POST", "/api/v1/memories", body_of(given))

    def store_all(self, count: int) -> Call:
        """Store several new ones in one request."""
        items = [body_of(next(self._new)) for _ in range(count)]
        return lambda: self._client.call("POST", "/api/v1/memories", {"items": items})

    def find(self, **filters: Any) -> Call:
        """Ask for a planted one by its question, which shares some of its words."""
        question = next(self._asked).question
        return lambda: self._client.call("POST", "/api/v1/search", {"query": question, **filters})

    def get(self) -> Call:
        """Read one whole."""
        path = self._path()
        return lambda: self._client.call("GET", path)

    def list(self) -> Call:
        """Read a page of the newest."""
        page = next(self._pages)
        return lambda: self._client.call("GET", f"/api/v1/memories?page={page}")

    def update(self) -> Call:
        """Add a tag."""
        path = self._path()
        return lambda: self._client.call("PATCH", path, {"tags": {"add": ["verified"]}})

    def supersede(self) -> Call:
        """Put a new text in the place of a memory's."""
        path, content = self._path(), next(self._new).content
        return lambda: self._client.call("PATCH", path, {"content": content})

    def delete(self) -> Call:
        """Put one into the trash."""
        memory = next(self._ids)
        self._trashed.append(memory)
        return lambda: self._delete(memory)

    def revive(self) -> Call:
        """Take one out of the trash, which is put there first where none is left."""
        if not self._trashed:
            self.delete()()
        memory = self._trashed.popleft()
        self._revived.append(memory)
        return lambda: self._client.call("POST", f"/api/v1/memories/{memory}/revive")

    def purge(self) -> Call:
        """Erase one."""
        memory = self._revived.popleft() if self._revived else next(self._ids)
        return lambda: self._delete(memory, purge=True)

    def _delete(self, memory: str, *, purge: bool = False) -> Any:
        wanted = {"ids": [memory], "confirm": True, "purge": purge}
        return self._client.call("POST", "/api/v1/memories/delete", wanted)

    def mcp_find(self) -> Call:
        """Call the tool that searches."""
        return self.mcp("tools/call", name="memory_find", arguments={"query": next(self._asked).question})

    def mcp(self, method: str, **parameters: Any) -> Call:
        """Send one message, as a client does that has been initialized. The call raises RuntimeError for an error."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}

        def call() -> Any:
            answer = self._client.call("POST", "/mcp", message)
            if "error" in answer or answer["result"].get("isError"):
                raise RuntimeError(f"MCP {method}: {answer}")
            return answer

        return call

    def _path(self) -> str:
        return f"/api/v1/memories/{next(self._ids)}"


def body_of(note: Note) -> dict[str, Any]:
    """Return the request that stores a note."""
    return {"content": note.content, "tags": list(note.tags)}
