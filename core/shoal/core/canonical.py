"""One spelling for one value, so that equal values hash alike on every device."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from shoal.schema.errors import InvalidMetadata


def canonical_json(value: JsonValue) -> str:
    """Return JSON with sorted keys, no spaces and characters as themselves (UTF-8 when encoded).

    Raises InvalidMetadata for what JSON or UTF-8 can't hold: NaN, infinities, lone surrogates, keys that
    aren't text, other objects, circles.
    """
    try:
        _refuse_keys_that_are_not_text(value)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMetadata(
            f"The value can't be written as JSON: {error}.",
            "Use objects with text keys, lists, text, finite numbers, true, false and null.",
        ) from error
    return text


def _refuse_keys_that_are_not_text(value: object) -> None:
    """Raise TypeError; `json` would write the key 1 as "1" and so give two different values one spelling."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} isn't text")
            _refuse_keys_that_are_not_text(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            _refuse_keys_that_are_not_text(item)
