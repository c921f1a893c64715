"""What a request carries to the code that answers it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope as HttpScope

from shoal.api.messages import Language
from shoal.core.caller import Caller
from shoal.core.service import Memory

MemoryProvider = Callable[[HttpScope], Awaitable[Memory]]
"""Gives the memory for a request. The edge makes one a request, since bindings may not outlive it."""

CONTEXT_KEY: Final = "shoal"
"""Where a request's context lies in its ASGI scope."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The memory, and who calls it in which language."""

    memory: Memory
    caller: Caller
    language: Language = Language.ENGLISH
    request_id: str = ""


def one_memory(memory: Memory) -> MemoryProvider:
    """Return the provider of a process that has one memory for all requests."""

    async def provide(_scope: HttpScope) -> Memory:
        return memory

    return provide


def context_of(scope: HttpScope) -> CallContext:
    """Return the context that the shell put into a request's scope."""
    return scope[CONTEXT_KEY]
