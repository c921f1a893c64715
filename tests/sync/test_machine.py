"""Two devices and the edge, and whatever Hypothesis thinks of."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.core.rig import ALL, Rig
from tests.sync.pair import Laptop, laptop, opened_edge

from shoal.core.ids import memory_id
from shoal.schema.errors import EdgeUnreachable, NotFound, ShoalError
from shoal.schema.models import GetRequest, MemoryOut

TEXTS = ("deploy failed", "部署成功", "tea at four")
TAGS = ("alpha", "标签")
everywhere = st.sampled_from(["edge", "one", "two"])
devices = st.sampled_from(["one", "two"])
texts = st.sampled_from(TEXTS)


class Replicas(RuleBasedStateMachine):
    """Rules are what people and the network do; at the end all exchange what they have."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    def do(self, act: Any) -> Any:
        return self.loop.run_until_complete(act)

    @initialize()
    def begin(self) -> None:
        self.edge: Rig = self.do(opened_edge())
        self.devices: dict[str, Laptop] = {name: self.do(laptop(self.edge, name)) for name in ("one", "two")}

    def rig(self, name: str) -> Rig:
        return self.edge if name == "edge" else self.devices[name].rig

    def seen(self, rig: Rig) -> dict[str, MemoryOut]:
        ids = [memory_id("main", text) for text in TEXTS]
        found = self.do(rig.get(*ids, with_edges=True, with_history=True))
        return {memory.content: memory for memory in found}

    @rule(where=everywhere, text=texts, tag=st.sampled_from(TAGS), revive=st.booleans())
    def store(self, where: str, text: str, tag: str, revive: bool) -> None:
        rig = self.rig(where)
        answer = self.do(rig.store(text, tags=[tag], revive=revive))
        if answer.status != "was_forgotten":
            assert tag in self.seen(rig)[text].tags
            assert self.do(rig.by_words(text)) != []

    @rule(where=everywhere, text=texts, tag=st.sampled_from(TAGS), there=st.booleans())
    def tag(self, where: str, text: str, tag: str, there: bool) -> None:
        rig = self.rig(where)
        try:
            self.do(rig.update(memory_id("main", text), tags={"add" if there else "remove": [tag]}))
        except NotFound:
            return
        assert (tag in self.seen(rig)[text].tags) == there

    @rule(where=everywhere, text=texts, value=st.sampled_from([None, 1, "two"]))
    def note(self, where: str, text: str, value: Any) -> None:
        rig = self.rig(where)
        try:
            self.do(rig.update(memory_id("main", text), metadata={"k": value}))
        except NotFound:
            return
        assert self.seen(rig)[text].metadata.get("k") == value

    @rule(where=everywhere, text=texts, other=texts)
    def reword(self, where: str, text: str, other: str) -> None:
        try:
            self.do(self.rig(where).update(memory_id("main", text), content=other))
        except ShoalError:
            return
        assert self.seen(self.rig(where))[other].state == "live"

    @rule(where=everywhere, text=texts)
    def delete(self, where: str, text: str) -> None:
        if self.do(self.rig(where).delete(memory_id("main", text))).status == "deleted":
            assert self.seen(self.rig(where))[text].state == "trashed"

    @rule(where=everywhere, text=texts)
    def revive(self, where: str, text: str) -> None:
        if self.do(self.rig(where).memory.revive([memory_id("main", text)], ALL)).ids:
            assert self.seen(self.rig(where))[text].state in ("live", "archived")

    @rule(where=everywhere, text=texts)
    def purge(self, where: str, text: str) -> None:
        self.do(self.rig(where).purge(memory_id("main", text)))
        assert text not in self.seen(self.rig(where))

    @rule(device=devices, limit=st.sampled_from([1, 2, 3, 500]))
    def exchange(self, device: str, limit: int) -> None:
        self.do(self.devices[device].engine.round(limit=limit))
        assert self.devices[device].dirty() == []

    @rule(device=devices, lost=st.integers(1, 4), limit=st.sampled_from([1, 3]))
    def exchange_until_an_answer_is_lost(self, device: str, lost: int, limit: int) -> None:
        answers = 0

        def after(_name: str, _answer: Any) -> None:
            nonlocal answers
            answers += 1
            if answers == lost:
                raise EdgeUnreachable("No answer.", "Wait.")

        transport = self.devices[device].transport
        transport.after = after
        try:
            self.do(self.devices[device].engine.round(limit=limit))
        except EdgeUnreachable:
            self.devices[device].engine = self.devices[device].new_engine()
        finally:
            transport.after = lambda _name, _answer: None

    @rule(seconds=st.integers(0, 400))
    def time_goes_on(self, seconds: int) -> None:
        self.edge.clock.now += seconds * 1_000

    def teardown(self) -> None:
        try:
            for device in ("one", "two", "one"):
                self.do(self.devices[device].engine.round())
            expected = self.seen(self.edge)
            for device in self.devices.values():
                assert device.dirty() == []
                assert self.seen(device.rig) == expected
                for word in ("deploy", "部署", "tea", *TAGS):
                    found = self.do(device.rig.memory.get(GetRequest(tags=word), ALL))
                    assert {one.id for one in found.memories} == {
                        one.id for one in self.do(self.edge.memory.get(GetRequest(tags=word), ALL)).memories
                    }
                    assert sorted(self.do(device.rig.by_words(word))) == sorted(self.do(self.edge.by_words(word)))
        finally:
            self.loop.close()


def run(examples: int, steps: int) -> None:
    slow = [HealthCheck.too_slow]
    run_state_machine_as_test(
        Replicas, settings=settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=slow)
    )


def test_two_devices_and_the_edge_come_to_have_the_same():
    run(25, 20)


@pytest.mark.long
def test_two_devices_and_the_edge_come_to_have_the_same_in_long_lives():
    run(400, 60)
