"""The whole Worker, running for tests: what they send it, and what they see and change behind it.

It is the Worker as it would be deployed, on wrangler.toml's bindings. Vectorize and Workers AI are the stand-ins, with
the real model's vectors. D1's file lies beside workerd, and SQLite's locks keep the two apart: so tests read what no
answer shows, empty the database between tests in milliseconds, and take it back to an earlier time.
"""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import apsw
import httpx
from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import Standin
from tests.edge.rig.records import Invocation
from tests.edge.rig.rig import Rig
from worker.stage import stage

ROOT: Final = Path(__file__).parents[2]
OWNER_KEY: Final = "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43U"
ORIGIN: Final = "https://app.example.com"
OFTEN: Final = "*/5 * * * *"
HOURLY: Final = "7 * * * *"
NEXT_CRON_S: Final = 300
LOCK_WAIT_MS: Final = 10_000
DELETE_IDS: Final = 100
"""Ids that Vectorize deletes in one call."""
TIMEOUT_S: Final = 60.0
PLAIN: Final[dict[str, Any]] = {"verify": False, "trust_env": False, "timeout": TIMEOUT_S}
"""For clients on this machine: they need no certificates and no proxies, which take longer to read than requests."""

COFFEE: Final = "The coffee machine is in the kitchen on the third floor."
ESPRESSO: Final = "where can I get an espresso"
"""Means it, and has no word of it."""

Rows = list[tuple[Any, ...]]


def worker(persist: Path, standin: Standin, internet: str | None = None, **variables: str) -> Rig:
    """Return the Worker as it is now in the checkout, not started. Messages of its queues wait for nothing.

    `internet` is the address of what stands in for it; without one there is none.
    """
    stage()
    return Rig(ROOT, persist, variables=variables, standin=standin.url, internet=internet, queue_wait_s=0)


def secrets(owner_key: str = OWNER_KEY) -> dict[str, str]:
    """Return the secrets with which the Worker serves whoever has the owner's key."""
    return {"OWNER_KEY_SHA256": hashlib.sha256(owner_key.encode()).hexdigest()}


class File:
    """One of the SQLite files in which Miniflare keeps the data of a service."""

    def __init__(self, rig: Rig, service: str) -> None:
        (path,) = [one for one in (rig.persist / "v3" / service).rglob("*.sqlite") if one.name != "metadata.sqlite"]
        self.connection: Final = apsw.Connection(str(path))
        self.connection.set_busy_timeout(LOCK_WAIT_MS)

    def rows(self, sql: str, *params: Any) -> Rows:
        """Run a statement, which may write, and return its rows."""
        return list(self.connection.execute(sql, params))

    def copy(self) -> apsw.Connection:
        """Return all that it holds now, in memory."""
        copied = apsw.Connection(":memory:")
        with copied.backup("main", self.connection, "main") as backup:
            backup.step()
        return copied

    def put_back(self, copied: apsw.Connection) -> None:
        """Make it hold what it held then."""
        with self.connection.backup("main", copied, "main") as backup:
            backup.step()


class Edge:
    """The Worker with all that it works on. `http` sends the owner's key."""

    def __init__(self, rig: Rig, standin: Standin) -> None:
        self.rig = rig
        self.standin = standin
        self.http = self.client()
        # The first request makes the files; the first reconcile measures the model, which need be done once.
        self.health()
        since = rig.mark()
        rig.cron(OFTEN)
        (self.first_cron,) = rig.invocations(since)
        """What the first reconcile of all cost."""
        self.database = File(rig, "d1")
        self.counted = File(rig, "ratelimit")
        """How many requests each caller has made."""
        self._empty = self.database.copy()
        self.may_fail = False
        """Whether invocations of the test that runs may end with an exception or 500."""

    def close(self) -> None:
        """Close what was opened here; the rig is its owner's."""
        self.http.close()
        self.database.connection.close()
        self.counted.connection.close()

    def client(self, token: str | None = OWNER_KEY, **headers: str) -> httpx.Client:
        """Return another client; without a token it sends none."""
        said = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.rig.url, headers={**said, **headers}, **PLAIN)

    # What clients do

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """Return the JSON of an answer that must be one of success."""
        answer = self.http.request(method, f"/api/v1{path}", **options)
        assert answer.is_success, f"{answer.status_code} {answer.text}"
        return answer.json()

    def store(self, content: str, **fields: Any) -> str:
        """Store one memory and return its id."""
        return self.ask("POST", "/memories", json={"content": content, **fields})["id"]

    def store_all(self, items: Sequence[Mapping[str, Any]], **fields: Any) -> list[str]:
        """Store several and return their ids."""
        answer = self.ask("POST", "/memories", json={"items": [dict(item) for item in items], **fields})
        return [one["id"] for one in answer["results"]]

    def find(self, query: str, **fields: Any) -> list[dict[str, Any]]:
        """Return what a search finds."""
        return self.search(query, **fields)["results"]

    def search(self, query: str, **fields: Any) -> dict[str, Any]:
        """Return a search's whole answer."""
        return self.ask("POST", "/search", json={"query": query, **fields})

    def meant(self, query: str = ESPRESSO, **fields: Any) -> list[str]:
        """Return the ids of what a search finds by its meaning."""
        return [row["id"] for row in self.find(query, **fields) if "meaning" in row["why"]]

    def get(self, memory_id: str, **fields: Any) -> dict[str, Any]:
        """Return a memory, whole."""
        return self.ask("GET", f"/memories/{memory_id}", params=fields)

    def update(self, memory_id: str, **changes: Any) -> dict[str, Any]:
        """Change a memory."""
        return self.ask("PATCH", f"/memories/{memory_id}", json=changes)

    def token(self, **fields: Any) -> str:
        """Make a token for a device, by default one that reads and writes in `main`, and return it."""
        return self.ask("POST", "/admin/tokens", json={"name": "a device", **fields})["token"]

    def delete(self, *ids: str, **fields: Any) -> dict[str, Any]:
        """Put memories into the trash, or purge them."""
        return self.ask("POST", "/memories/delete", json={"ids": list(ids), "confirm": True, **fields})

    def stats(self) -> dict[str, Any]:
        """Return the statistics."""
        return self.ask("GET", "/stats")

    def health(self) -> dict[str, Any]:
        """Return what anyone may know."""
        return self.http.get("/healthz").json()

    # What goes on behind it

    def order(self, service: str, kind: str, **more: Any) -> None:
        """Let calls of Vectorize or Workers AI fail: see FaultOrder. Once unless told otherwise; None is for ever."""
        self.standin.control(faults=[{"service": service, "kind": kind, **more}])

    def await_hang(self) -> None:
        """Wait until every order to fail has been taken: where it was a time-out, a call hangs now."""
        deadline = time.monotonic() + TIMEOUT_S
        while any(self.standin.state()[service]["faults"] for service in ("ai", "vectorize")):
            assert time.monotonic() < deadline, "nothing hangs"
            time.sleep(0.01)

    def settle(self) -> None:
        """Let the queue run dry, and the index show what it has taken."""
        self.rig.drain()
        self.standin.control(settle=True)

    def catch_up(self) -> None:
        """Settle, reconcile once, when nothing can be on its way any more, and settle what that has found."""
        self.settle()
        self.rig.cron(OFTEN, int((time.time() + NEXT_CRON_S) * 1000))
        self.settle()

    def crash(self) -> None:
        """Kill workerd with all that it is in the middle of, the messages in its queues too, and start it again."""
        self.kill()
        self.standin.control(clear_faults=True)
        self.restart()

    def kill(self) -> None:
        """Kill workerd, and leave it so: `restart` starts it again."""
        for pid in self.rig.pids():
            os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        """Stop the Worker and start it again, in a new isolate."""
        self.http.close()
        self.rig.restart()
        self.http = self.client()

    def rows(self, sql: str, *params: Any) -> Rows:
        """Return rows of the database."""
        return self.database.rows(sql, *params)

    def value(self, sql: str, *params: Any) -> Any:
        """Return the only column of the only row."""
        ((value,),) = self.rows(sql, *params)
        return value

    def vectorize(self, method: str, *args: Any) -> Any:
        """Call the index past the Worker, as nobody should."""
        answer = httpx.post(f"{self.standin.url}/vectorize/{method}", json={"args": args}, **PLAIN)
        assert answer.is_success, answer.text
        return answer.json()["result"]

    def vector_ids(self) -> list[str]:
        """Return the ids of all vectors that the index shows, sorted."""
        assert self.standin.server is not None
        return self.standin.server.vectorize.ids()

    @contextmanager
    def hashed(self) -> Iterator[None]:
        """Let Workers AI hash words instead of understanding them, for texts so many that nobody would wait."""
        assert self.standin.server is not None
        real, self.standin.server.ai = self.standin.server.ai, AiEngine.hashed()
        try:
            yield
        finally:
            self.standin.server.ai = real

    def cost(self, call: Callable[[], object]) -> Invocation:
        """Make one request and return what it cost, with what it left to do after its answer."""
        since = self.rig.mark()
        call()
        (one,) = [each for each in self.rig.invocations(since) if each.kind == "fetch"]
        return one

    # From test to test

    @contextmanager
    def test(self) -> Iterator[Self]:
        """Run one test on an empty memory: nothing may break production's rules, fail unseen, or go on afterwards."""
        self.empty()
        self.may_fail = False
        with self.rig.watched():
            since = self.rig.mark()
            yield self
            self.heal()
            self.rig.drain()
            failed = [each for each in self.rig.invocations(since) if each.error or each.status == 500]
            assert self.may_fail or not failed, f"failed inside: {failed}\n{self.rig.log()[-5:]}"

    def empty(self) -> None:
        """Take everything away: memories, vectors, counted requests, faults."""
        self.heal()
        self.rig.drain()
        self.database.put_back(self._empty)
        self.standin.control(settle=True)
        ids = self.vector_ids()
        for start in range(0, len(ids), DELETE_IDS):
            self.vectorize("deleteByIds", ids[start : start + DELETE_IDS])
        self.counted.rows("delete from _mf_ratelimit_buckets")

    def heal(self) -> None:
        """End every fault, and make the index prompt again."""
        self.rig.heal()
        self.rig.set_clock(0)
        self.standin.control(clear_faults=True, poison="", lag_s=0, missing=0)


def codes(answer: Mapping[str, Any]) -> list[str]:
    """Return the codes of an answer's notes."""
    return [note["code"] for note in answer["notes"]]
