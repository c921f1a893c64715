"""Queues: a producer's binding and, on the other side, the delivery of batches to a consumer, with retries and death.

Time is a clock that the test moves; nothing here waits. Limits and errors: the documentation of Queues, with the codes
that the runtime gives since 2026-03-12. Semantics of acknowledging: workerd's queue.c++.
"""

import asyncio
import json
import time
import uuid
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, cast

from tests.edge.doubles.faults import Faults
from tests.edge.doubles.invocation import FREE_PLAN, Limits, invocation, subrequest
from tests.edge.doubles.sdk import JsDict, JsError, JsValue, arguments, from_js, json_bytes

MESSAGE_MAX_BYTES: Final = 128_000
BATCH_MAX_BYTES: Final = 256_000
OVERHEAD_BYTES: Final = 100
"""Documented: up to so much of a message's limit goes to metadata. Counted in full here."""
BATCH_MAX_MESSAGES: Final = 100
DELAY_MAX_S: Final = 86_400
OPERATION_BYTES: Final = 64_000
"""Each begun 64 kB of a message written, read or deleted is one of the operations that are billed and capped."""
FREE_OPERATIONS_A_DAY: Final = 10_000
DRAIN_BATCHES_MAX: Final = 10_000
"""After so many batches a queue that never empties is a fault of the test."""


class QueueFault(StrEnum):
    """How a send can be made to fail."""

    OVERLOADED = "Queue is overloaded (10250)"
    STORAGE_FULL = "Queue storage limit exceeded (10251)"
    DISABLED = "Queue disabled (10252)"
    DAILY = "Free tier limit exceeded (10253)"
    INTERNAL = "Unknown Internal Error (15000)"


@dataclass(slots=True)
class Sent:
    """A message in a queue."""

    id: str
    body: JsValue
    size_bytes: int
    sent_s: float
    due_s: float
    attempts: int = 0
    """Deliveries so far."""


@dataclass(slots=True)
class Delivery:
    """What became of one batch, by message id."""

    acked: list[str] = field(default_factory=list[str])
    retried: list[str] = field(default_factory=list[str])
    dead: list[str] = field(default_factory=list[str])
    error: Exception | None = None
    """What the consumer raised."""


class Message:
    """A message as the consumer sees it."""

    def __init__(self, batch: "MessageBatch", sent: Sent) -> None:
        self._batch = batch
        self.id: Final = sent.id
        self.timestamp: Final = datetime.fromtimestamp(sent.sent_s)
        """When it was sent: the SDK gives local time without a zone."""
        self.body: Final = from_js(sent.body)
        self.attempts: Final = sent.attempts
        """Of delivery, this one counted."""

    def ack(self) -> None:
        """Take it as done, even if the consumer fails later. Does nothing after a retry() or retryAll()."""
        batch = self._batch
        if not batch.acked_all and batch.retry_all is None and self.id not in batch.retries:
            batch.acks.add(self.id)

    def retry(self, options: object = None, **more: object) -> None:
        """Have it delivered again, after `delaySeconds`. Does nothing after an ack() or ackAll()."""
        delay_s = _retry_delay(options, more)
        if not self._batch.acked_all and self.id not in self._batch.acks:
            self._batch.retries[self.id] = delay_s


class MessageBatch:
    """What a consumer gets."""

    def __init__(self, queue: str, messages: Sequence[Sent]) -> None:
        self.queue: Final = queue
        self.messages: Final = [Message(self, sent) for sent in messages]
        self.acks: set[str] = set()
        self.acked_all = False
        self.retries: dict[str, float | None] = {}
        self.retry_all: float | None = None
        """Seconds, or -1 for the queue's own delay; None until it is called."""

    def ackAll(self) -> None:
        """Take all as done. Does nothing after a retryAll()."""
        self.acked_all = self.acked_all or self.retry_all is None

    def retryAll(self, options: object = None, **more: object) -> None:
        """Have all delivered again but those acknowledged. Does nothing after an ackAll()."""
        delay_s = _retry_delay(options, more)
        if not self.acked_all:
            self.retry_all = -1.0 if delay_s is None else delay_s


Consumer = Callable[[MessageBatch], Awaitable[object]]


class QueueDouble:
    """One queue with its consumer's settings, which are those of wrangler.toml.

    On demand: `duplicate_next` messages are delivered once more after they were acknowledged; `backwards` turns the
    order around, as no order is promised; `operations_a_day` refuses what is over the cap.
    """

    def __init__(
        self,
        name: str = "queue",
        *,
        max_batch_size: int = 10,
        max_retries: int = 3,
        retry_delay_s: float = 0.0,
        delivery_delay_s: float = 0.0,
        dead_letters: "QueueDouble | None" = None,
        clock: Callable[[], float] = time.time,
        limits: Limits = FREE_PLAN,
    ) -> None:
        if not (1 <= max_batch_size <= BATCH_MAX_MESSAGES and 0 <= max_retries <= 100):
            raise ValueError("max_batch_size is 1 to 100, max_retries 0 to 100")
        self.name = name
        self.faults = Faults(QueueFault)
        self.duplicate_next = 0
        self.backwards = False
        self.operations = 0
        """Written, read and deleted so far; a delivery that is retried is another read."""
        self.operations_a_day: int | None = None
        self.dropped: list[Sent] = []
        """Messages that ran out of retries and had no dead-letter queue to go to."""
        self._max_batch_size = max_batch_size
        self._max_retries = max_retries
        self._retry_delay_s = retry_delay_s
        self._delivery_delay_s = delivery_delay_s
        self._dead_letters = dead_letters
        self._clock = clock
        self._limits = limits
        self._waiting: list[Sent] = []

    @property
    def bodies(self) -> list[Any]:
        """What waits in the queue, delayed or not, oldest first."""
        return [from_js(sent.body) for sent in self._waiting]

    def send(self, body: object, options: object = None, **more: object) -> Awaitable[Any]:
        """Send one message; options are `contentType` and `delaySeconds`. Raises JsError or TypeError."""
        [converted, *given] = arguments([body] if options is None else [body, options], more)
        merged = _options(given)

        async def run() -> Any:
            async with subrequest("queue.send"):
                await asyncio.sleep(0)
                sent = self._message(converted, merged, None)
                return self._accept("send", [sent])

        return run()

    def sendBatch(self, messages: object, options: object = None, **more: object) -> Awaitable[Any]:
        """Send up to 100 messages, each `{"body": ...}` with options of its own. Raises JsError or TypeError."""
        [converted, *given] = arguments([messages] if options is None else [messages, options], more)
        merged = _options(given)

        async def run() -> Any:
            async with subrequest("queue.sendBatch"):
                await asyncio.sleep(0)
                return self._accept("sendBatch", self._messages(converted, merged))

        return run()

    async def deliver(self, consumer: Consumer) -> Delivery | None:
        """Give the consumer a batch of what is due, as an invocation of its own; None when nothing is.

        Raises AssertionError, so also ProductionRuleBroken; what else the consumer raises is in the answer, and
        retries the batch.
        """
        now = self._clock()
        due = [sent for sent in self._waiting if sent.due_s <= now]
        messages = (due[::-1] if self.backwards else due)[: self._max_batch_size]
        if not messages or self._over_cap(messages):
            return None
        for sent in messages:
            self._waiting.remove(sent)
            sent.attempts += 1
        self._count(messages)
        batch, delivery = MessageBatch(self.name, messages), Delivery()
        with invocation(self._limits):
            try:
                await consumer(batch)
            except AssertionError:
                raise  # the test's own
            except Exception as error:
                delivery.error = error
        self._settle(batch, messages, delivery)
        return delivery

    async def drain(self, consumer: Consumer) -> list[Delivery]:
        """Deliver batch after batch until nothing is due."""
        deliveries: list[Delivery] = []
        while (delivery := await self.deliver(consumer)) is not None:
            deliveries.append(delivery)
            if len(deliveries) == DRAIN_BATCHES_MAX:
                raise AssertionError(f"{self.name} never empties: it has no delay and retries for ever")
        return deliveries

    def receive(self, sent: Sent) -> None:
        """Take a dead message of another queue: it keeps its id and time, and its attempts begin again."""
        fresh = Sent(sent.id, sent.body, sent.size_bytes, sent.sent_s, self._clock())
        self._count([fresh])
        self._waiting.append(fresh)

    def _settle(self, batch: MessageBatch, messages: Sequence[Sent], delivery: Delivery) -> None:
        failed = delivery.error is not None or batch.retry_all is not None
        for sent in messages:
            if batch.acked_all or sent.id in batch.acks or not (failed or sent.id in batch.retries):
                self._done(sent, delivery)
            elif sent.attempts > self._max_retries:
                self._die(sent, delivery)
            else:
                delivery.retried.append(sent.id)
                sent.due_s = self._clock() + self._delay_s(batch, sent)
                self._waiting.append(sent)

    def _done(self, sent: Sent, delivery: Delivery) -> None:
        delivery.acked.append(sent.id)
        self._count([sent])
        if self.duplicate_next:
            # At least once: the acknowledgement got lost.
            self.duplicate_next -= 1
            self._waiting.append(sent)

    def _die(self, sent: Sent, delivery: Delivery) -> None:
        delivery.dead.append(sent.id)
        self._count([sent])
        if self._dead_letters is None:
            self.dropped.append(sent)
        else:
            self._dead_letters.receive(sent)

    def _delay_s(self, batch: MessageBatch, sent: Sent) -> float:
        own = batch.retries.get(sent.id)
        if own is not None:
            return own
        return batch.retry_all if batch.retry_all is not None and batch.retry_all >= 0 else self._retry_delay_s

    def _accept(self, method: str, messages: list[Sent]) -> JsDict:
        fault = self.faults.take(method)
        if fault is not None and not fault.applied:
            raise JsError(fault.kind)
        if self._over_cap(messages):
            raise JsError(QueueFault.DAILY)
        self._count(messages)
        self._waiting += messages
        if fault is not None:
            raise JsError(fault.kind)
        size = sum(sent.size_bytes for sent in self._waiting)
        return from_js({"metadata": {"metrics": {"backlogCount": len(self._waiting), "backlogBytes": size}}})

    def _messages(self, given: JsValue, options: dict[str, JsValue]) -> list[Sent]:
        if not isinstance(given, list):
            raise JsError("messages are not iterable", "TypeError")
        requests = cast("list[JsValue]", given)
        if not requests or len(requests) > BATCH_MAX_MESSAGES:
            raise JsError("Batch count out of bounds (10206)")
        sent: list[Sent] = []
        for request in requests:
            if not isinstance(request, dict) or "body" not in request:
                raise JsError("a message of a batch needs a body", "TypeError")
            own = cast("dict[str, JsValue]", request)
            sent.append(self._message(own["body"], own, options.get("delaySeconds")))
        if sum(one.size_bytes for one in sent) > BATCH_MAX_BYTES:
            raise JsError("Batch size out of bounds (10205)")
        return sent

    def _message(self, body: JsValue, options: dict[str, JsValue], default_delay_s: JsValue) -> Sent:
        body, size = _serialised(body, options.get("contentType", "json"))
        if size + OVERHEAD_BYTES > MESSAGE_MAX_BYTES:
            raise JsError("Message size out of bounds (10204)")
        delay_s = options.get("delaySeconds", default_delay_s)
        if delay_s is not None:
            _check_delay(delay_s)
        now = self._clock()
        due_s = now + (self._delivery_delay_s if delay_s is None else delay_s)
        return Sent(uuid.uuid4().hex, body, size + OVERHEAD_BYTES, now, due_s)

    def _count(self, messages: Sequence[Sent]) -> None:
        self.operations += _operations(messages)

    def _over_cap(self, messages: Sequence[Sent]) -> bool:
        return self.operations_a_day is not None and self.operations + _operations(messages) > self.operations_a_day


def _operations(messages: Sequence[Sent]) -> int:
    return sum(-(-sent.size_bytes // OPERATION_BYTES) for sent in messages)


def _serialised(body: JsValue, content_type: JsValue) -> tuple[JsValue, int]:
    """Return the body as it arrives, and its size in bytes."""
    if content_type == "json":
        text = json_bytes(body)
        return json.loads(text), len(text)
    if content_type == "text" and isinstance(body, str):
        return body, len(body.encode())
    if content_type == "bytes" and isinstance(body, array):
        data = cast("array[Any]", body).tobytes()
        return array("B", data), len(data)
    # `v8` is one more of production's; nothing here needs it.
    raise JsError(f'Content Type "{content_type}" requires another type of value', "TypeError")


def _options(given: Sequence[JsValue]) -> dict[str, JsValue]:
    merged: dict[str, JsValue] = {}
    for options in given:
        if not isinstance(options, dict):
            raise JsError("options are an object", "TypeError")
        merged.update(cast("dict[str, JsValue]", options))
    return merged


def _retry_delay(options: object, more: dict[str, object]) -> float | None:
    delay_s = _options(arguments([] if options is None else [options], more)).get("delaySeconds")
    if delay_s is not None:
        _check_delay(delay_s)
    return delay_s


def _check_delay(delay_s: JsValue) -> None:
    if isinstance(delay_s, bool) or not isinstance(delay_s, int) or not 0 <= delay_s <= DELAY_MAX_S:
        raise JsError("Invalid message metadata (10203)")
