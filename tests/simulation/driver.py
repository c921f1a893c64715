"""Runs coroutines by hand, one step at a time and in an order that a seed decides: no event loop, no real time.

What the code under test awaits is, in the end, always `asyncio.sleep(0)`: each is a place where another may go on,
where the network or a clock may do something, and where a process may die.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from shoal.schema.errors import ShoalError

STEPS_MAX: Final = 60_000
"""Of one seed; more are a loop that doesn't end."""


async def pause() -> None:
    """Let others go on."""
    await asyncio.sleep(0)


class NeverEnds(AssertionError):
    """Something goes on for ever."""


class Task:
    """A coroutine under way. `owner` dies with all of its tasks."""

    def __init__(self, coroutine: Coroutine[Any, None, Any], owner: object, then: Callable[["Task"], None]) -> None:
        self.coroutine = coroutine
        self.owner = owner
        self.then = then
        self.done = False
        self.value: Any = None
        self.error: ShoalError | None = None


def _nothing(_task: Task) -> None:
    pass


class Driver:
    """All that goes on at one time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._tasks: list[Task] = []
        self._steps = 0

    def spawn(
        self, coroutine: Coroutine[Any, None, Any], owner: object, then: Callable[[Task], None] = _nothing
    ) -> Task:
        """Begin something; `then` is told of its end, unless it is killed."""
        task = Task(coroutine, owner, then)
        self._tasks.append(task)
        return task

    def busy(self, owner: object) -> bool:
        """Say whether an owner has tasks."""
        return any(task.owner is owner for task in self._tasks)

    def run(self, steps: int) -> None:
        """Take so many steps, each of any task."""
        for _ in range(steps):
            if not self._tasks:
                return
            self._step(self._chance.choice(self._tasks))

    def drain(self) -> None:
        """Let everything end."""
        while self._tasks:
            self.run(100)

    def finish(self, coroutine: Coroutine[Any, None, Any], owner: object) -> Any:
        """Run one thing to its end, everything else in between, and return what it returns. Raises ShoalError."""
        task = self.spawn(coroutine, owner)
        while not task.done:
            self._step(self._chance.choice(self._tasks))
        if task.error is not None:
            raise task.error
        return task.value

    def kill(self, owner: object) -> None:
        """End an owner's tasks where they are, as the death of a process does."""
        for task in [task for task in self._tasks if task.owner is owner]:
            self._tasks.remove(task)
            task.coroutine.close()

    def close(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.coroutine.close()
        self._tasks.clear()

    def _step(self, task: Task) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise NeverEnds(f"not at an end after {STEPS_MAX} steps")
        try:
            task.coroutine.send(None)
        except StopIteration as end:
            task.value = end.value
        except ShoalError as error:
            task.error = error
        else:
            return
        task.done = True
        self._tasks.remove(task)
        task.then(task)
