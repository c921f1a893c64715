"""What people and agents do to a replica, through the service that they have."""

import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from shoal.core.apply import apply
from shoal.core.caller import Caller
from shoal.core.cells import INIT, Cell, local
from shoal.core.ids import memory_id
from shoal.core.journal import Action, Author
from shoal.core.service import Memory
from shoal.schema.models import DeleteRequest, StoreItem, StoreRequest, TagChanges, UpdateRequest
from shoal.schema.sql import Mode

ALL: Final = Caller()
SPACES: Final = ("main", "team")
TEXTS: Final = (
    "deploy failed on friday",
    "deploy works again",
    "部署成功",
    "tea at four",
    "the key hangs by the door",
    "blue is better than green",
)
HOT: Final = 0.35
"""How often it is the first of them: people and agents do meet at one memory."""
TURNS: Final = (("Thanks!", "talk", 0), ("Thanks!", "talk", 1))
TAGS: Final = ("alpha", "beta", "标签")
ENTITIES: Final = ("Ann", "Bob")
TYPES: Final = (None, "note", "bug", "decision")
WORDS: Final = ("deploy", "部署", "alpha")
BY: Final = Author(Action.STORE, "newer", "", "")
IDS: Final = tuple(memory_id(space, text) for space in SPACES for text in TEXTS)
"""Of what may be there, but the turns."""


class Person:
    """Somebody who writes to a space of a replica, mostly to what is there."""

    def __init__(
        self, chance: random.Random, memory: Memory, space: str, known: Sequence[str], hot: float = HOT
    ) -> None:
        self.chance = chance
        self.memory = memory
        self.space = space
        self.known = known
        self.hot = hot


def deed(person: Person) -> Coroutine[Any, None, Any]:
    """Return something that somebody does. It may raise a ShoalError."""
    weights = {
        _store: 10,
        _store_again: 3,
        _store_several: 1,
        _turn: 2,
        _tags: 6,
        _metadata: 4,
        _fields: 4,
        _reword: 3,
        _trash: 3,
        _revive: 2,
        _purge: 2,
        _anew: 3,
        _empty_trash: 1,
        _newer: 2,
    }
    (act,) = person.chance.choices(list(weights), list(weights.values()))
    return act(person)


def interruption(person: Person) -> Coroutine[Any, None, Any]:
    """Return a change to what is just being pushed."""
    return person.chance.choice((_tags, _tags, _metadata, _fields, _trash, _purge))(person)


def _some(chance: random.Random, values: tuple[str, ...]) -> list[str]:
    return [value for value in values if chance.random() < 0.4]


def _id(one: Person) -> str:
    if one.chance.random() < one.hot:
        return memory_id(one.space, TEXTS[0])
    if one.known and one.chance.random() < 0.9:
        return one.chance.choice(one.known)
    return memory_id(one.space, one.chance.choice(TEXTS))


def _store(one: Person, revive: bool = False) -> Coroutine[Any, None, Any]:
    request = StoreRequest(
        content=TEXTS[0] if one.chance.random() < HOT else one.chance.choice(TEXTS),
        type=one.chance.choice(TYPES),
        tags=_some(one.chance, TAGS),
        entities=_some(one.chance, ENTITIES),
        source=one.chance.choice((None, "chat")),
        metadata={"k": one.chance.randrange(5)} if one.chance.random() < 0.3 else None,
        space=one.space,
        revive=revive,
    )
    return one.memory.store(request, ALL)


def _store_again(one: Person) -> Coroutine[Any, None, Any]:
    return _store(one, revive=True)


def _store_several(one: Person) -> Coroutine[Any, None, Any]:
    items = [StoreItem(content=text, tags=_some(one.chance, TAGS)) for text in one.chance.sample(TEXTS, 3)]
    return one.memory.store(StoreRequest(items=items, space=one.space), ALL)


def _turn(one: Person) -> Coroutine[Any, None, Any]:
    text, conversation, position = one.chance.choice(TURNS)
    return one.memory.store(
        StoreRequest(content=text, conversation_id=conversation, position=position, space=one.space), ALL
    )


def _tags(one: Person) -> Coroutine[Any, None, Any]:
    add = _some(one.chance, TAGS)
    changes = TagChanges(add=add, remove=[tag for tag in _some(one.chance, TAGS) if tag not in add])
    return one.memory.update(UpdateRequest(id=_id(one), tags=changes, space=one.space), ALL)


def _metadata(one: Person) -> Coroutine[Any, None, Any]:
    value: Any = one.chance.choice((None, 1, "two", [3], {"四": 4}))
    return one.memory.update(
        UpdateRequest(id=_id(one), metadata={one.chance.choice(("k", "键")): value}, space=one.space), ALL
    )


def _fields(one: Person) -> Coroutine[Any, None, Any]:
    changes: dict[str, Any] = one.chance.choice(
        (
            {"importance": one.chance.choice((0.5, 1.0, 2.0))},
            {"archived": one.chance.random() < 0.5},
            {"type": one.chance.choice(TYPES[1:])},
            {"occurred_at": f"2026-0{one.chance.randrange(1, 9)}-01"},
        )
    )
    return one.memory.update(UpdateRequest(id=_id(one), space=one.space, **changes), ALL)


def _reword(one: Person) -> Coroutine[Any, None, Any]:
    return one.memory.update(
        UpdateRequest(id=_id(one), content=one.chance.choice(TEXTS), space=one.space, revive=one.chance.random() < 0.3),
        ALL,
    )


def _trash(one: Person) -> Coroutine[Any, None, Any]:
    return one.memory.delete(
        DeleteRequest(id=_id(one), confirm=True, space=one.space, reason=one.chance.choice((None, "old"))), ALL
    )


def _revive(one: Person) -> Coroutine[Any, None, Any]:
    return one.memory.revive([_id(one)], ALL)


def _purge(one: Person) -> Coroutine[Any, None, Any]:
    return one.memory.delete(DeleteRequest(id=_id(one), confirm=True, purge=True, space=one.space), ALL)


def _empty_trash(one: Person) -> Coroutine[Any, None, Any]:
    return one.memory.empty_trash()


async def _anew(one: Person) -> None:
    """Purge a memory and store it again: another life."""
    await _purge(one)
    await _store(one, revive=True)


def _newer(one: Person) -> Coroutine[Any, None, Any]:
    """Write what only a newer version knows: fields of a memory, and a record of a class of its own."""
    strange = memory_id(one.space, "a class of its own")
    cells: list[Cell] = [
        local(_id(one), one.space, "zz:new", one.chance.randrange(9), Mode.EDIT),
        local(strange, one.space, INIT, {"v": 9, "class": "widget", "space": one.space}, Mode.STORE),
        local(strange, one.space, "colour", one.chance.choice(("red", "blue")), Mode.EDIT),
    ]
    context = one.memory.context
    return apply(context.database, cells, context.replica, context.clock(), BY)
