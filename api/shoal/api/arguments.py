"""From what a client sent to a request: validation whose errors name the field, the fault and what is allowed.

Tools are called by language models, which write "5" for 5, '["a"]' for ["a"], 5.0 for 5 and null for 'not given';
all of these are understood where nothing is lost. Bodies of REST come from programs and are taken as they are.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from shoal.schema.errors import InvalidInput, MalformedBody

R = TypeVar("R", bound=BaseModel)
Schema = Mapping[str, Any]

_PROBLEMS_MAX: Final = 5
"""Problems named in one error; a model corrects a few at a time."""
_VALUE_MAX_CHARS: Final = 60
"""Characters of a refused value that an error repeats."""
_EXACT_MAX: Final = 2.0**53
"""Whole numbers up to this are exact as floats."""
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_WANTED: Final = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


class Problem(NamedTuple):
    """One fault of a request: where, what, and what would do."""

    field: str
    problem: str
    allowed: str


def parse_json(body: bytes) -> object:
    """Return the value of a JSON body. Raises MalformedBody; NaN and Infinity are not JSON."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise MalformedBody(f"The body is not JSON: {error}.", "Send one JSON object in UTF-8.") from error


def validate(model: type[R], data: object) -> R:
    """Return the request for a body, with no conversion. Raises InvalidInput naming each faulty field."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _invalid(model, data, error.errors(include_url=False, include_context=True)) from None


def validate_tool(model: type[R], arguments: Mapping[str, Any]) -> R:
    """Return the request for a tool's arguments, converting what a language model writes differently."""
    return validate(model, loosened(model, arguments))


def loosened(model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's arguments with what a language model writes differently converted, valid or not."""
    schema = _schema(model)
    return _loosened(dict(arguments), schema, schema.get("$defs", {}))


def validate_query(model: type[R], pairs: Iterable[tuple[str, str]]) -> R:
    """Return the request for a URL's query, in which everything is text and a repeated name is a list."""
    gathered: dict[str, list[str]] = {}
    for name, value in pairs:
        gathered.setdefault(name, []).append(value)
    schema = _schema(model)
    properties, defs = schema["properties"], schema.get("$defs", {})
    return validate_tool(
        model,
        {
            name: values if len(values) > 1 or _types(properties.get(name, {}), defs) == {"array"} else values[0]
            for name, values in gathered.items()
        },
    )


@lru_cache(maxsize=64)
def _schema(model: type[BaseModel]) -> Schema:
    return model.model_json_schema()


def _alternatives(schema: Schema, defs: Schema) -> list[Schema]:
    if "$ref" in schema:
        return _alternatives(defs[str(schema["$ref"]).removeprefix("#/$defs/")], defs)
    if "anyOf" in schema:
        return [leaf for sub in schema["anyOf"] for leaf in _alternatives(sub, defs)]
    return [schema]


def _types(schema: Schema, defs: Schema) -> set[str]:
    return {str(leaf.get("type", "any")) for leaf in _alternatives(schema, defs)} - {"null"}


def _loosened(value: Any, schema: Schema, defs: Schema) -> Any:
    if isinstance(value, str):
        value = _from_text(value, _types(schema, defs))
    if isinstance(value, float) and _types(schema, defs) == {"integer"} and _is_exact(value):
        return int(value)
    for leaf in _alternatives(schema, defs):
        if isinstance(value, dict) and "properties" in leaf:
            return _loosened_object(cast("dict[str, Any]", value), leaf, defs)
        if isinstance(value, list) and "items" in leaf:
            return [_loosened(item, leaf["items"], defs) for item in cast("list[Any]", value)]
    return cast("Any", value)


def _loosened_object(value: dict[str, Any], schema: Schema, defs: Schema) -> dict[str, Any]:
    properties = schema["properties"]
    return {
        name: _loosened(item, properties[name], defs) if name in properties else item
        for name, item in value.items()
        if not (item is None and "default" in properties.get(name, {}))
    }


def _from_text(text: str, types: set[str]) -> Any:
    stripped = text.strip()
    if "any" in types:
        return text
    if (stripped[:1] == "[" and "array" in types) or (stripped[:1] == "{" and "object" in types):
        return _container(stripped, text)
    if "string" in types:
        return text
    if types & {"integer", "number"} and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if types & {"integer", "number"} and _NUMBER.fullmatch(stripped) and math.isfinite(float(stripped)):
        return float(stripped)
    if "boolean" in types and stripped.lower() in {"true", "false"}:
        return stripped.lower() == "true"
    return text


def _is_exact(value: float) -> bool:
    return value.is_integer() and abs(value) <= _EXACT_MAX


def _container(stripped: str, text: str) -> Any:
    try:
        return from_json(stripped)
    except ValueError:
        return text


def _invalid(model: type[BaseModel], data: object, errors: Sequence[ErrorDetails]) -> InvalidInput:
    problems = _problems(model, data, errors)
    named = problems[:_PROBLEMS_MAX]
    message = " ".join(f"{_where(p.field)} {p.problem}." for p in named)
    if len(problems) > len(named):
        message += f" And {len(problems) - len(named)} more."
    details = {"problems": [{"field": p.field, "problem": p.problem} for p in named]} if len(named) > 1 else {}
    return InvalidInput(message, " ".join(dict.fromkeys(p.allowed for p in named)), field=named[0].field, **details)


def _where(field: str) -> str:
    """Return how an error names a field; the empty one is the request itself."""
    return f"`{field}`" if field else "The request"


def _problems(model: type[BaseModel], data: object, errors: Sequence[ErrorDetails]) -> list[Problem]:
    """Return one problem a place; of an alternative's faults, only those deepest inside count."""
    gathered: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for error in errors:
        gathered.setdefault(_place(error, data), []).append(error)
    deepest = [
        place for place in gathered if not any(o != place and o[: len(place)] == place for o in gathered if place)
    ]
    return [_problem(model, place, gathered[place]) for place in deepest]


def _place(error: ErrorDetails, data: object) -> tuple[str | int, ...]:
    """Return the path of an error in the data: pydantic's own without the names of a union's alternatives."""
    place: list[str | int] = []
    here = data
    last = len(error["loc"]) - 1
    for n, step in enumerate(error["loc"]):
        if isinstance(here, dict) and step in here:
            here = cast("dict[Any, Any]", here)[step]
        elif isinstance(here, list) and isinstance(step, int):
            here = cast("list[Any]", here)[step]
        elif not (n == last and error["type"] == "missing"):
            continue
        place.append(step)
    return tuple(place)


def _problem(model: type[BaseModel], place: tuple[str | int, ...], errors: list[ErrorDetails]) -> Problem:
    field = ".".join(str(step) for step in place)
    first = errors[0]
    if first["type"] == "extra_forbidden":
        return _unknown(model, place, field)
    if first["type"] == "missing":
        return Problem(field, "is missing", f"Give {_where(field)}.")
    wanted = " or ".join(dict.fromkeys(_wanted(error) for error in errors))
    return Problem(field, f"must be {wanted}, not {_shown(first['input'])}", f"Give {wanted} for {_where(field)}.")


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in {"literal_error", "enum"}:
        return str(error.get("ctx", {})["expected"])
    return _WANTED.get(error["type"], error["msg"])


def _shown(value: object) -> str:
    shown = json.dumps(value, default=repr)
    return shown if len(shown) <= _VALUE_MAX_CHARS else shown[:_VALUE_MAX_CHARS] + "..."


def _unknown(model: type[BaseModel], place: tuple[str | int, ...], field: str) -> Problem:
    from difflib import get_close_matches  # seldom needed, and 20 ms of a Worker's start

    names = _names_at(_schema(model), place[:-1])
    near = get_close_matches(str(place[-1]), names, n=1)
    guess = f"Did you mean `{near[0]}`? " if near else ""
    known = f"The names are: {', '.join(names)}." if names else "None is taken."
    return Problem(field, "is not known here", guess + known)


def _names_at(schema: Schema, place: tuple[str | int, ...]) -> list[str]:
    defs = schema.get("$defs", {})
    here: list[Schema] = [schema]
    for step in place:
        inner = [
            leaf["items"] if isinstance(step, int) else leaf["properties"].get(step)
            for leaf in here
            if ("items" if isinstance(step, int) else "properties") in leaf
        ]
        here = [leaf for sub in inner if sub for leaf in _alternatives(sub, defs)]
    return [name for leaf in here for name in leaf.get("properties", {})]
