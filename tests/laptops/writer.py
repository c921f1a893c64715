"""Somebody who writes to one replica over REST, and notes what was acknowledged."""

import random
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from tests.laptops.replica import Cell, Replica, Stamp

from shoal.core.ids import memory_id

SPACE: Final = "main"
THINGS: Final = (
    ("kettle", "茶壶"),
    ("ladder", "梯子"),
    ("passport", "护照"),
    ("drill", "电钻"),
    ("projector", "投影仪"),
    ("tent", "帐篷"),
)
PLACES: Final = (
    ("cellar", "地下室"),
    ("attic", "阁楼"),
    ("garage", "车库"),
    ("boat", "船舱"),
)
TEXTS: Final = tuple(
    text
    for thing, thing_zh in THINGS
    for place, place_zh in PLACES
    for text in (f"The {thing} lies in the {place}.", f"{thing_zh}放在{place_zh}里。")
)
"""What everyone writes about: so few that they meet at the same memories."""
HOT: Final = TEXTS[:4]
HOT_SHARE: Final = 0.5
TAGS: Final = ("alpha", "beta", "标签")
ARCHIVED_SHARE: Final = 0.3
TRIES_AGAIN_S: Final = 0.05
"""After no answer came."""
REFUSED: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""What may be said to somebody who writes to a memory that another has just deleted."""


class Unheard(Exception):
    """Nobody has said whether it was done."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said."""

    status: int
    body: Any


class Ask(Protocol):
    """Sends a request of REST. Raises Unheard."""

    def __call__(self, method: str, path: str, body: Any = None) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Deed:
    """A request, and what must stand in the database once it is acknowledged."""

    method: str
    path: str
    body: Mapping[str, Any] | None
    id: str
    """The memory that it is about."""
    fields: Sequence[str] = ()
    """Cells of it that are there then, and"""
    edited: Sequence[str] = ()
    """cells that are newer than before."""
    made: str | None = None
    """Another memory that is there then."""


class Writer:
    """Writes in a thread until it is told to stop, whatever goes down meanwhile."""

    def __init__(self, name: str, chance: random.Random, ask: Ask, replica: Replica, pause_s: float) -> None:
        self.name = name
        self.stamps: dict[Cell, Stamp] = {}
        """Of all cells that stood in the database after an acknowledgement: the newest."""
        self.acknowledged = 0
        self.unheard = 0
        self.own: list[str] = []
        """Words of which each is in one memory only."""
        self._chance = chance
        self.ask = ask
        self.replica = replica
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._fault = ""
        self._thread = threading.Thread(target=self._run, name=name)
        self._number = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; raise what has gone wrong."""
        self._ended.set()
        self._thread.join()
        assert not self._fault, f"{self.name}: {self._fault}"

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._chance.uniform(0, 2 * self._pause_s)):
                self._do(deed(self))
        except Exception:
            self._fault = traceback.format_exc()

    def _do(self, one: Deed) -> None:
        before = self.replica.stamps([one.id])
        try:
            answer = self.ask(one.method, one.path, one.body)
        except Unheard:
            self.unheard += 1
            self._ended.wait(TRIES_AGAIN_S)
            return
        if answer.status >= HTTPStatus.BAD_REQUEST:
            assert answer.status in REFUSED, f"{one} {answer}"
            return
        self.acknowledged += 1
        after = self.replica.stamps([one.id] if one.made is None else [one.id, one.made])
        _check_written(one, before, after)
        for cell, stamp in after.items():
            self.stamps[cell] = max(stamp, self.stamps.get(cell, stamp))

    # What it writes

    def text(self) -> str:
        """Return what everyone may write."""
        return self._chance.choice(HOT if self._chance.random() < HOT_SHARE else TEXTS)

    def new_text(self) -> str:
        """Return what nobody else writes."""
        word = f"{self.name}{self.number()}"
        self.own.append(word)
        return self._chance.choice((f"A parcel came: {word}.", f"收到包裹 {word}。"))

    def number(self) -> int:
        """Return another number each time."""
        self._number += 1
        return self._number

    def tags(self) -> list[str]:
        """Return some tags."""
        return [tag for tag in TAGS if self._chance.random() < 0.4]

    def choice(self, kinds: Mapping[Callable[["Writer"], Deed], int]) -> Deed:
        """Return a deed of a kind, by their weights."""
        (make,) = self._chance.choices(list(kinds), list(kinds.values()))
        return make(self)

    def is_likely(self, share: float) -> bool:
        """Toss a coin."""
        return self._chance.random() < share


def _check_written(one: Deed, before: Mapping[Cell, Stamp], after: Mapping[Cell, Stamp]) -> None:
    """Check that what was acknowledged is in the database."""
    init = (one.id, SPACE, "init")
    assert init in after, f"acknowledged and not there: {one}"
    assert one.made is None or (one.made, SPACE, "init") in after, f"acknowledged and not made: {one}"
    if init in before and before[init][0] != after[init][0]:
        return  # Another life has begun meanwhile, by this deed or from elsewhere.
    for field in (*one.fields, *one.edited):
        assert (one.id, SPACE, field) in after, f"acknowledged without {field}: {one}"
    for field in one.edited:
        cell = (one.id, SPACE, field)
        assert cell not in before or before[cell] < after[cell], f"acknowledged, and {field} is as before: {one}"


def deed(writer: Writer) -> Deed:
    """Return something to do."""
    return writer.choice(
        {
            _store: 8,
            _store_own: 6,
            _store_anyway: 2,
            _add_tags: 6,
            _remove_tags: 3,
            _note: 4,
            _archive: 2,
            _reword: 3,
            _delete: 3,
            _revive: 2,
            _purge: 2,
        }
    )


def _stores(content: str, tags: list[str], **more: Any) -> Deed:
    body = {"content": content, "tags": tags, **more}
    return Deed("POST", "/memories", body, memory_id(SPACE, content), [f"tag:{tag}" for tag in tags])


def _store(writer: Writer) -> Deed:
    return _stores(writer.text(), writer.tags())


def _store_own(writer: Writer) -> Deed:
    return _stores(writer.new_text(), [])


def _store_anyway(writer: Writer) -> Deed:
    return _stores(writer.text(), writer.tags(), revive=True)


def _changes(writer: Writer, fields: Sequence[str] = (), edited: Sequence[str] = (), **changes: Any) -> Deed:
    one = memory_id(SPACE, writer.text())
    return Deed("PATCH", f"/memories/{one}", changes, one, fields, edited)


def _add_tags(writer: Writer) -> Deed:
    tags = writer.tags()
    return _changes(writer, [f"tag:{tag}" for tag in tags], tags={"add": tags})


def _remove_tags(writer: Writer) -> Deed:
    return _changes(writer, tags={"remove": writer.tags()})


def _note(writer: Writer) -> Deed:
    key = "备注" if writer.is_likely(0.5) else "note"
    return _changes(writer, edited=[f"md:{key}"], metadata={key: f"{writer.name} {writer.number()}"})


def _archive(writer: Writer) -> Deed:
    archived = writer.is_likely(ARCHIVED_SHARE)
    # That something is out of the archive which never was in it need not be written.
    return _changes(writer, ["archived"] if archived else [], archived=archived)


def _reword(writer: Writer) -> Deed:
    old, new = writer.text(), writer.text()
    one = memory_id(SPACE, old)
    if new == old:
        return _store_own(writer)
    return Deed("PATCH", f"/memories/{one}", {"content": new}, one, made=memory_id(SPACE, new))


def _delete(writer: Writer) -> Deed:
    one = memory_id(SPACE, writer.text())
    return Deed("DELETE", f"/memories/{one}?confirm=true&reason=gone", None, one)


def _revive(writer: Writer) -> Deed:
    one = memory_id(SPACE, writer.text())
    return Deed("POST", f"/memories/{one}/revive", None, one)


def _purge(writer: Writer) -> Deed:
    one = memory_id(SPACE, writer.text())
    return Deed("DELETE", f"/memories/{one}?confirm=true&purge=true", None, one)
