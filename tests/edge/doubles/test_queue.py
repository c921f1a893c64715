"""What a queue takes, and what becomes of its messages."""

from datetime import datetime
from typing import Any

import pytest
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.invocation import ProductionRuleBroken, invocation
from tests.edge.doubles.queue import MessageBatch, QueueDouble, QueueFault
from tests.edge.doubles.sdk import JsError


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


class Consumer:
    """Does to each batch what the test says, and remembers the bodies."""

    def __init__(self, act: Any = lambda batch: None) -> None:
        self.act = act
        self.seen: list[list[Any]] = []

    async def __call__(self, batch: MessageBatch) -> None:
        self.seen.append([message.body for message in batch.messages])
        self.act(batch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def refusal(call: Any) -> str:
    with pytest.raises(JsError) as refused:
        await call
    return refused.value.message


async def filled(*bodies: Any, **settings: Any) -> QueueDouble:
    queue = QueueDouble(**settings)
    for body in bodies:
        await queue.send(body)
    return queue


async def test_a_message_arrives_as_json_makes_it(clock: Clock):
    queue = await filled({"ids": [1, 2.0], "gone": None}, clock=clock)
    seen: list[Any] = []
    await queue.deliver(Consumer(lambda batch: seen.extend(batch.messages)))
    [message] = seen
    assert message.body == {"ids": [1, 2], "gone": None}
    assert message.body.ids == [1, 2]
    assert message.attempts == 1
    assert message.timestamp == datetime.fromtimestamp(clock.now)
    assert queue.bodies == []


async def test_bytes_inside_a_message_are_mangled_and_alone_are_not():
    queue = await filled({"b": b"\x01\x02"})
    await queue.send(b"\x01\x02", contentType="bytes")
    await queue.send("text", {"contentType": "text"})
    mangled, whole, text = queue.bodies
    assert (mangled, bytes(whole), text) == ({"b": {"0": 1, "1": 2}}, b"\x01\x02", "text")


@pytest.mark.parametrize("content_type", ["text", "bytes", "v8", "xml"])
async def test_a_content_type_that_does_not_fit_is_refused(content_type: str):
    assert "requires another type" in await refusal(QueueDouble().send({"a": 1}, contentType=content_type))


async def test_what_the_sdk_does_not_send_fails_before_it_is_awaited():
    with pytest.raises(TypeError):
        QueueDouble().send((1,))


async def test_a_message_has_at_most_128_kb_its_metadata_included():
    queue = QueueDouble()
    await queue.send("x" * 127_898)
    assert await refusal(queue.send("x" * 127_899)) == "Message size out of bounds (10204)"
    assert await refusal(queue.sendBatch([{"body": "x" * 127_899}])) == "Message size out of bounds (10204)"


async def test_a_batch_has_at_most_100_messages_and_256_kb():
    queue = QueueDouble()
    await queue.sendBatch([{"body": 1}] * 100)
    assert await refusal(queue.sendBatch([{"body": 1}] * 101)) == "Batch count out of bounds (10206)"
    assert await refusal(queue.sendBatch([])) == "Batch count out of bounds (10206)"
    await queue.sendBatch([{"body": "x" * 127_898}] * 2)
    assert await refusal(queue.sendBatch([{"body": "x" * 85_300}] * 3)) == "Batch size out of bounds (10205)"
    assert len(queue.bodies) == 102


@pytest.mark.parametrize(("messages", "text"), [("ab", "not iterable"), ([{"a": 1}], "needs a body"), ([1], "body")])
async def test_what_is_no_batch_is_refused(messages: Any, text: str):
    assert text in await refusal(QueueDouble().sendBatch(messages))


@pytest.mark.parametrize("delay", [-1, 86_401, 1.5, True, "1"])
async def test_a_delay_out_of_range_is_refused(delay: Any):
    assert await refusal(QueueDouble().send(1, delaySeconds=delay)) == "Invalid message metadata (10203)"


async def test_options_are_an_object():
    with pytest.raises(JsError, match="options are an object"):
        QueueDouble().send(1, 60)


async def test_a_delayed_message_waits(clock: Clock):
    queue, consumer = QueueDouble(clock=clock, delivery_delay_s=60), Consumer()
    await queue.sendBatch([{"body": "soon", "delaySeconds": 0}, {"body": "later"}], delaySeconds=10)
    await queue.send("last")
    for seconds in (0, 10, 50):
        clock.now += seconds
        await queue.drain(consumer)
    assert consumer.seen == [["soon"], ["later"], ["last"]]


async def test_batches_are_of_at_most_the_set_size():
    queue, consumer = await filled(*range(7), max_batch_size=3), Consumer()
    deliveries = await queue.drain(consumer)
    assert consumer.seen == [[0, 1, 2], [3, 4, 5], [6]]
    assert [len(delivery.acked) for delivery in deliveries] == [3, 3, 1]
    assert await queue.deliver(consumer) is None


async def test_a_consumer_that_fails_gets_the_whole_batch_again_but_for_what_it_acknowledged():
    queue = await filled("a", "b")

    def fail(batch: MessageBatch) -> None:
        batch.messages[0].ack()
        raise OSError("no")

    consumer = Consumer(fail)
    delivery = await queue.deliver(consumer)
    assert delivery is not None
    assert isinstance(delivery.error, OSError)
    consumer.act = lambda batch: None
    await queue.drain(consumer)
    assert consumer.seen == [["a", "b"], ["b"]]


async def test_messages_are_retried_alone_or_together_after_their_delay(clock: Clock):
    queue = await filled("a", "b", "c", clock=clock, retry_delay_s=5)

    def some(batch: MessageBatch) -> None:
        batch.messages[0].retry({"delaySeconds": 30})
        batch.messages[1].retry()

    consumer = Consumer(some)
    await queue.drain(consumer)
    consumer.act = lambda batch: batch.retryAll(delaySeconds=1)
    clock.now += 5
    await queue.drain(consumer)
    consumer.act = lambda batch: None
    clock.now += 1
    await queue.drain(consumer)
    clock.now += 24
    await queue.drain(consumer)
    assert consumer.seen == [["a", "b", "c"], ["b"], ["b"], ["a"]]


@pytest.mark.parametrize(
    ("act", "retried"),
    [
        (lambda batch, one: (one.ack(), one.retry()), ""),
        (lambda batch, one: (one.retry(), one.ack()), "a"),
        (lambda batch, one: (batch.ackAll(), one.retry()), ""),
        (lambda batch, one: (batch.ackAll(), batch.retryAll()), ""),
        (lambda batch, one: (batch.retryAll(), batch.ackAll()), "ab"),
        (lambda batch, one: (batch.retryAll(), one.ack()), "ab"),
        (lambda batch, one: (one.ack(), batch.retryAll()), "b"),
    ],
)
async def test_what_was_said_first_of_a_message_counts(act: Any, retried: str):
    queue = await filled("a", "b", retry_delay_s=60)
    await queue.drain(Consumer(lambda batch: act(batch, batch.messages[0])))
    assert "".join(queue.bodies) == retried


async def test_a_message_dies_after_its_retries_and_keeps_its_id(clock: Clock):
    dead = QueueDouble("dead", clock=clock)
    queue = await filled("poison", "fine", dead_letters=dead, max_retries=2, clock=clock)
    attempts: list[int] = []

    def refuse(batch: MessageBatch) -> None:
        for message in batch.messages:
            if message.body == "poison":
                attempts.append(message.attempts)
                message.retry()

    deliveries = await queue.drain(Consumer(refuse))
    assert attempts == [1, 2, 3]
    assert (queue.bodies, dead.bodies) == ([], ["poison"])
    seen: list[Any] = []
    await dead.deliver(Consumer(lambda batch: seen.extend(batch.messages)))
    assert (seen[0].id, seen[0].attempts) == (deliveries[-1].dead[0], 1)


async def test_without_a_queue_for_the_dead_a_message_is_lost():
    queue = await filled("poison", max_retries=0)
    await queue.drain(Consumer(lambda batch: batch.retryAll()))
    assert [sent.body for sent in queue.dropped] == ["poison"]


async def test_messages_come_twice_or_backwards_on_demand():
    queue, consumer = await filled("a", "b", "c"), Consumer()
    queue.backwards, queue.duplicate_next = True, 1
    await queue.drain(consumer)
    assert consumer.seen == [["c", "b", "a"], ["c"]]


async def test_a_delivery_is_an_invocation_of_its_own():
    queue = await filled("a", "b", max_batch_size=1)

    async def busy(batch: MessageBatch) -> None:
        for _ in range(30):
            await queue.send("more", delaySeconds=60)

    with invocation():
        assert len(await queue.drain(busy)) == 2

    async def too_busy(batch: MessageBatch) -> None:
        for _ in range(51):
            await queue.send("more", delaySeconds=60)

    await queue.send("c")
    with pytest.raises(ProductionRuleBroken, match="subrequests"):
        await queue.deliver(too_busy)


async def test_an_assertion_in_a_consumer_fails_the_test():
    queue = await filled("a")

    async def check(batch: MessageBatch) -> None:
        assert batch.messages[0].body == "b"

    with pytest.raises(AssertionError):
        await queue.deliver(check)


async def test_a_queue_that_never_empties_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.edge.doubles.queue.DRAIN_BATCHES_MAX", 10)
    queue = await filled("a", max_retries=100)
    with pytest.raises(AssertionError, match="never empties"):
        await queue.drain(Consumer(lambda batch: batch.retryAll()))


@pytest.mark.parametrize("kind", QueueFault)
@pytest.mark.parametrize("applied", [False, True])
async def test_a_send_fails_on_demand_with_the_message_taken_or_not(kind: QueueFault, applied: bool):
    queue = QueueDouble()
    queue.faults.add(Fault(kind, on="send", applied=applied))
    assert await refusal(queue.send("a")) == kind.value
    await queue.sendBatch([{"body": "b"}])
    assert queue.bodies == (["a", "b"] if applied else ["b"])


async def test_a_message_costs_three_operations_and_more_when_it_is_long():
    queue = await filled("a")
    await queue.drain(Consumer())
    assert queue.operations == 3
    await queue.send("x" * 100_000)
    assert queue.operations == 5


async def test_what_is_over_the_daily_cap_is_refused_and_what_is_there_waits():
    queue, consumer = await filled("a", "b"), Consumer()
    queue.operations_a_day = 3
    await queue.send("c")
    assert await refusal(queue.send("d")) == "Free tier limit exceeded (10253)"
    assert await queue.drain(consumer) == []
    queue.operations_a_day = None
    await queue.drain(consumer)
    assert consumer.seen == [["a", "b", "c"]]


async def test_an_answer_says_how_much_waits():
    queue = await filled("a")
    answer = await queue.send("b")
    assert answer.metadata.metrics == {"backlogCount": 2, "backlogBytes": 206}


@pytest.mark.parametrize("settings", [{"max_batch_size": 0}, {"max_batch_size": 101}, {"max_retries": 101}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]):
    with pytest.raises(ValueError, match="1 to 100"):
        QueueDouble(**settings)
