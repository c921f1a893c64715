"""What lies between a Worker's Python and a binding's JavaScript: values that cross, and errors that come back.

The rules are those of workers-runtime-sdk 1.9.5 (`workers/rpc.py`) on Pyodide 314: arguments are converted when the
method is called, before anything is awaited. A JavaScript value is written down here as Python: null as None, an
object as a dict, a typed array as an `array`, a Date as a datetime.
"""

import inspect
import json
import math
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

SAFE_INT_MAX: Final = 2**53 - 1
"""Greatest absolute value of a whole JavaScript number that comes back as an int."""
SENT_INT_MAX: Final = SAFE_INT_MAX - 1
"""Greatest absolute value of an int that is sent as a JavaScript number; from SAFE_INT_MAX on it becomes a BigInt."""

JsValue = Any
"""None, bool, int, float, str, BigInt, array, datetime, or a list or dict of such."""


class JsError(Exception):
    """An exception thrown by JavaScript, with the face of Pyodide's JsException: `name`, `message`, both in str()."""

    def __init__(self, message: str, name: str = "Error") -> None:
        super().__init__(message)
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class JsDict(dict[str, Any]):
    """An object that came from JavaScript: its keys are attributes too, as the SDK's JsDict has it."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


@dataclass(frozen=True, slots=True)
class BigInt:
    """An integer that no JavaScript number can hold."""

    value: int


def to_js(value: object) -> JsValue:
    """Return the value as JavaScript would see it; raise TypeError for what the SDK doesn't send.

    Stricter than the SDK in one thing: an object that would cross as a proxy, which no binding reads, is refused.
    """
    match value:
        case None | bool() | float() | str() | datetime():
            return value
        case int():
            return value if abs(value) <= SENT_INT_MAX else BigInt(value)
        case bytes():
            return array("B", value)
        case array():
            return cast("array[Any]", value)[:]
        case memoryview():
            return array(value.format, value.tobytes())
        case tuple() | bytearray():
            raise TypeError(f"{type(cast('object', value))} cannot be sent over RPC.")
        case list():
            return [to_js(item) for item in cast("list[object]", value)]
        case dict():
            return {str(key): to_js(item) for key, item in cast("dict[object, object]", value).items()}
        case _ if inspect.isawaitable(value):
            raise TypeError(f"Awaitable {type(value)} cannot be sent over RPC.")
        case _:
            raise TypeError(f"{type(value)} would cross to JavaScript as a proxy.")


def from_js(value: JsValue) -> Any:
    """Return the value as Python sees it: whole numbers as int (also 1.0), objects as JsDict."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) <= SAFE_INT_MAX else value
        case bool():
            return value
        case int():
            return value if abs(value) <= SAFE_INT_MAX else float(value)
        case list():
            return [from_js(item) for item in cast("list[JsValue]", value)]
        case dict():
            return JsDict({key: from_js(item) for key, item in cast("dict[str, JsValue]", value).items()})
        case array():
            return memoryview(cast("array[Any]", value))
        case _:
            return value


def arguments(args: Sequence[object], options: Mapping[str, object]) -> list[JsValue]:
    """Return a call's arguments in JavaScript; keyword arguments become one last object."""
    converted = [to_js(argument) for argument in args]
    return [*converted, to_js(dict(options))] if options else converted


def call(
    method: Callable[..., Awaitable[JsValue]], args: Sequence[object], options: Mapping[str, object]
) -> Awaitable[Any]:
    """Convert the arguments now, and return what runs the method and converts its result once it is awaited."""
    converted = arguments(args, options)

    async def run() -> Any:
        return from_js(await method(*converted))

    return run()


def json_bytes(value: JsValue) -> bytes:
    """Return what JSON.stringify makes of a value, in UTF-8.

    Raises UnicodeEncodeError for half a surrogate pair, which the services refuse as broken JSON, and JsError for a
    BigInt.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: JsValue) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case float():
            return from_js(value)
        case BigInt():
            raise JsError("Do not know how to serialize a BigInt", "TypeError")
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case array():
            # JSON.stringify knows no typed arrays: bytes inside an object arrive mangled, as {"0": 1, "1": 2}.
            return {str(number): item for number, item in enumerate(cast("array[Any]", value))}
        case list():
            return [_plain(item) for item in cast("list[JsValue]", value)]
        case dict():
            return {key: _plain(item) for key, item in cast("dict[str, JsValue]", value).items()}
        case _:
            return value
