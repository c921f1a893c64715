"""One service against a model of a few lines, through whatever life brings."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.core.rig import ALL, DAY, Rig, opened

from shoal.core.ids import memory_id
from shoal.schema.errors import NotFound
from shoal.schema.models import TagChanges

TEXTS = ("certificate expired", "部署失败了")
"""Two, so that each goes through many states."""
OWN_WORDS = dict(zip(TEXTS, ("certificate", "失败"), strict=True))
TAGS = ("proj:beta", "标签")
TYPES = (None, "bug", "note")
KEYS = ("k", "键")

texts = st.sampled_from(TEXTS)
tag_sets = st.sets(st.sampled_from(TAGS))
metadata = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([1, "v", None, ["x"]]), max_size=2)


@dataclass
class Known:
    """What the model knows of a text: it is living, archived, trashed or purged."""

    state: str = "live"
    type: str = "note"
    tags: set[str] = field(default_factory=set)
    metadata: dict[str, Any] = field(default_factory=dict)
    trashed_at: int = 0

    def changed(self, tags: set[str], new_metadata: dict[str, Any]) -> None:
        self.tags |= tags
        for key, value in new_metadata.items():
            self.metadata.pop(key, None)
            if value is not None:
                self.metadata[key] = value


class Life(RuleBasedStateMachine):
    """Rules are what callers do; the invariant is what they then see."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.known: dict[str, Known] = {}

    def do(self, act):
        return self.loop.run_until_complete(act)

    def teardown(self) -> None:
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        self.rig: Rig = self.do(opened())

    def alive(self, text: str) -> Known | None:
        known = self.known.get(text)
        return known if known is not None and known.state in ("live", "archived") else None

    @rule(
        text=texts, tags=tag_sets, data=metadata, type_name=st.sampled_from([None, "bug", "note"]), revive=st.booleans()
    )
    def store(self, text, tags, data, type_name, revive):
        answer = self.do(self.rig.store(text, tags=sorted(tags), metadata=data, type=type_name, revive=revive))
        known = self.known.get(text)
        if known is not None and known.state in ("trashed", "purged") and not revive:
            assert answer.status == "was_forgotten"
            return
        if known is None or known.state == "purged":
            assert answer.status == ("created" if known is None else "revived")
            known = self.known[text] = Known(type=type_name or "note")
        else:
            assert answer.status == ("revived" if known.state == "trashed" else "merged")
            changed = type_name is not None and known.type != type_name
            assert answer.type_changed == changed
            known.type = type_name or known.type
        known.state = "live"
        known.changed(tags, data)
        assert (answer.type, answer.tags) == (known.type, sorted(known.tags))

    @rule(text=texts, add=tag_sets, remove=tag_sets, data=metadata, type_name=st.sampled_from(["bug", "note"]))
    def update(self, text, add, remove, data, type_name):
        changes = TagChanges(add=sorted(add), remove=sorted(remove - add))
        known = self.alive(text)
        act = self.rig.update(memory_id("main", text), tags=changes, metadata=data, type=type_name)
        if known is None:
            with pytest.raises(NotFound):
                self.do(act)
            return
        self.do(act)
        known.tags -= remove - add
        known.changed(add, data)
        known.type = type_name

    @rule(text=texts, archived=st.booleans())
    def archive(self, text, archived):
        known = self.alive(text)
        if known is not None:
            self.do(self.rig.update(memory_id("main", text), archived=archived))
            known.state = "archived" if archived else "live"

    @rule(text=texts)
    def delete(self, text):
        answer = self.do(self.rig.delete(memory_id("main", text)))
        known = self.alive(text)
        assert (answer.status == "deleted") == (known is not None)
        if known is not None:
            known.trashed_at = self.rig.clock()
            # The archive is where it comes back to.
            known.metadata["was archived"] = known.state == "archived"
            known.state = "trashed"

    @rule(text=texts)
    def revive(self, text):
        answer = self.do(self.rig.memory.revive([memory_id("main", text)], ALL))
        known = self.known.get(text)
        assert bool(answer.ids) == (known is not None and known.state == "trashed")
        if answer.ids:
            known.state = "archived" if known.metadata["was archived"] else "live"

    @rule(text=texts)
    def purge(self, text):
        answer = self.do(self.rig.purge(memory_id("main", text)))
        known = self.known.get(text)
        assert (answer.status == "purged") == (known is not None and known.state != "purged")
        if known is not None:
            self.known[text] = Known("purged")

    @rule(days=st.integers(0, 20))
    def time_goes_on(self, days):
        self.rig.clock.now += days * DAY
        self.do(self.rig.memory.empty_trash())
        for text, known in self.known.items():
            if known.state == "trashed" and known.trashed_at < self.rig.clock() - 30 * DAY:
                self.known[text] = Known("purged")

    @rule()
    def embed(self):
        self.do(self.rig.embed_all())
        held = {text for text, known in self.known.items() if known.state != "purged"}
        assert len(self.rig.index._rows) == len(held)

    @invariant()
    def callers_see_what_the_model_knows(self):
        for text in TEXTS:
            known = self.known.get(text)
            there = self.do(self.rig.get(memory_id("main", text)))
            if known is None or known.state == "purged":
                assert there == []
                continue
            (memory,) = there
            expected = {key: value for key, value in known.metadata.items() if key in KEYS}
            assert (memory.state, memory.type, memory.content) == (known.state, known.type, text)
            assert (memory.tags, memory.metadata) == (sorted(known.tags), expected)

    @invariant()
    def what_is_living_is_found_by_its_own_words_and_tags_and_nothing_else_is(self):
        for text, word in OWN_WORDS.items():
            known = self.known.get(text)
            found = self.do(self.rig.by_words(word))
            assert found == ([memory_id("main", text)] if known is not None and known.state == "live" else [])
        for tag in TAGS:
            tagged = {text for text, known in self.known.items() if known.state == "live" and tag in known.tags}
            found = self.do(self.rig.find(tags=tag, n_results=10))
            assert {one.snippet for one in found} == tagged
            assert {one.snippet for one in self.do(self.rig.find(tag, n_results=10)) if "words" in one.why} == tagged


def live(examples: int, steps: int) -> None:
    slow = [HealthCheck.too_slow]
    run_state_machine_as_test(
        Life, settings=settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=slow)
    )


def test_a_memory_lives_as_the_model_says():
    live(40, 20)


@pytest.mark.long
def test_a_memory_lives_long_as_the_model_says():
    live(500, 60)
