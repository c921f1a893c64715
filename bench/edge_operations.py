"""What clients of the edge do, one request each, for the benchmark to time and count."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.corpus import Note
from bench.harness import Client

BATCH: Final = 100
"""Memories stored in one request, and"""
BATCHES: Final = 5
"""how many such requests are made."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """Requests of one kind; each differs from the others, as a client's do."""

    name: str
    calls: Sequence[Call]


class Clientele:
    """Makes the calls. `planted` are in the memory already, by their ids; each of `new` is stored at most once."""

    KINDS: Final = 17
    """How many operations there are."""

    def __init__(self, client: Client, planted: Mapping[str, Note], new: Iterator[Note]) -> None:
        self._client = client
        self._planted = planted
        self._ids = iter(planted)
        self._asked = iter(planted.values())
        self._new = new

    def operations(self, often: int, seldom: int) -> Iterator[Operation]:
        """Yield everything that is measured: what has a target `often` times, the rest `seldom` times.

        Each is made when it is asked for: what a later one changes, an earlier one has left there.
        """
        yield Operation("health", [lambda: self._client.call("GET", "/healthz")] * often)
        yield Operation("store", [self.store() for _ in range(often)])
        yield Operation("store_repeat", [self.store(note) for note in self._some(seldom)])
        yield Operation("find", [self.find() for _ in range(often)])
        yield Operation("find_tags", [self.find(tags=["proj:atlas", "ops"]) for _ in range(seldom)])
        yield Operation("find_all_spaces", [self.find(space="*") for _ in range(seldom)])
        yield Operation("get", [self.get(one) for one in self._next_ids(seldom)])
        yield Operation("list", [self.list(1 + number) for number in range(seldom)])
        yield Operation("update", [self.update(one) for one in self._next_ids(seldom)])
        yield Operation("supersede", [self.supersede(one) for one in self._next_ids(seldom)])
        ids = self._next_ids(seldom)
        yield Operation("delete", [self.delete(one) for one in ids])
        yield Operation("revive", [self.revive(one) for one in ids])
        yield Operation("purge", [self.delete(one, purge=True) for one in ids])
        yield Operation("stats", [lambda: self._client.call("GET", "/api/v1/stats")] * seldom)
        yield Operation("mcp_tools_list", [self.mcp("tools/list")] * seldom)
        yield Operation("mcp_call", [self.mcp_find() for _ in range(often)])
        yield Operation("store_100", [self.store_all(BATCH) for _ in range(BATCHES)])

    def mixed(self, count: int) -> Iterator[Call]:
        """Yield what a busy day brings, by turns, `count` requests."""
        for number in range(count):
            match number % 10:
                case 0 | 1:
                    yield self.store()
                case 2 | 3 | 4:
                    yield self.find()
                case 5:
                    yield self.get(next(self._ids))
                case 6:
                    yield self.list(1)
                case 7:
                    yield self.update(next(self._ids))
                case 8:
                    yield self.mcp_find()
                case _:
                    yield self.delete(next(self._ids))

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

    def get(self, memory: str) -> Call:
        """Read one whole."""
        return lambda: self._client.call("GET", f"/api/v1/memories/{memory}")

    def list(self, page: int) -> Call:
        """Read a page of the newest."""
        return lambda: self._client.call("GET", f"/api/v1/memories?page={page}")

    def update(self, memory: str) -> Call:
        """Add a tag."""
        return lambda: self._client.call("PATCH", f"/api/v1/memories/{memory}", {"tags": {"add": ["verified"]}})

    def supersede(self, memory: str) -> Call:
        """Put a new text in the place of a memory's."""
        content = next(self._new).content
        return lambda: self._client.call("PATCH", f"/api/v1/memories/{memory}", {"content": content})

    def delete(self, memory: str, *, purge: bool = False) -> Call:
        """Put one into the trash, or erase it."""
        wanted = {"ids": [memory], "confirm": True, "purge": purge}
        return lambda: self._client.call("POST", "/api/v1/memories/delete", wanted)

    def revive(self, memory: str) -> Call:
        """Take one out of the trash."""
        return lambda: self._client.call("POST", f"/api/v1/memories/{memory}/revive")

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

    def _next_ids(self, count: int) -> Sequence[str]:
        return [next(self._ids) for _ in range(count)]

    def _some(self, count: int) -> Sequence[Note]:
        return list(self._planted.values())[-count:]


def body_of(note: Note) -> dict[str, Any]:
    """Return the request that stores a note."""
    return {"content": note.content, "tags": list(note.tags)}
