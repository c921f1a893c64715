"""JSON Schemas of requests and answers, short enough for a language model's context.

Their conventions: an optional value that is not given is null, false, 0, empty, or the first of its enum, unless
`default` says otherwise.

pydantic's own output carries titles, `$ref`s and an `anyOf` with null for each optional field; clients need none
of it and some refuse it. What remains is valid JSON Schema 2020-12.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, cast

from pydantic import BaseModel

Schema = dict[str, Any]


def compact_schema(model: type[BaseModel], plain: Collection[str] = (), without: Collection[str] = ()) -> Schema:
    """Return the input schema of a request.

    `plain` names the properties that go without a description, because another tool explains them; `without`
    those that the caller may not use. Optional values are written without null, which requests accept anyway.
    """
    schema = _compacted(model, "validation")
    properties = {
        name: _without_description(sub) if name in plain else sub
        for name, sub in schema.pop("properties", {}).items()
        if name not in without
    }
    properties = {name: _without_repeats(sub, properties) for name, sub in properties.items()}
    return {**schema, "properties": properties, "additionalProperties": False}


def answer_schema(*models: type[BaseModel]) -> Schema:
    """Return the output schema of a tool that answers with one of several models.

    The root is one plain object, as strict clients demand: all properties, of which only those are required that
    every model always has. Fields that are None are left out of answers, so those are never required.
    """
    schemas = [_compacted(model, "serialization") for model in models]
    required = [set(cast("list[str]", schema.get("required", []))) for schema in schemas]
    properties: Schema = {}
    for schema in schemas:
        properties.update(schema["properties"])
    shared = set[str].intersection(*required)
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in shared],
    }


def _compacted(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Schema:
    raw = model.model_json_schema(mode=mode)
    compact = _shorten(raw, raw.get("$defs", {}), mode == "serialization")
    compact.pop("description", None)
    return compact


def _shorten(schema: Schema, defs: Mapping[str, Schema], answer: bool) -> Schema:
    if "$ref" in schema:
        target = defs[cast(str, schema["$ref"]).removeprefix("#/$defs/")]
        if not target:
            return {}
        inlined = {name: value for name, value in target.items() if name != "description"}
        return _shorten({**inlined, **{k: v for k, v in schema.items() if k != "$ref"}}, defs, answer)
    short = {name: value for name, value in schema.items() if name not in {"title", "$defs", "anyOf", "default"}}
    if not answer and schema.get("default") not in (None, False, 0, "", *schema.get("enum", [])[:1]):
        short["default"] = schema["default"]
    if all(str(value) in short.get("description", "") for value in short.get("enum", ["\0"])):
        del short["description"]
    if "anyOf" in schema:
        _put_alternatives(short, [_shorten(sub, defs, answer) for sub in schema["anyOf"]], answer)
    if "properties" in schema:
        short["properties"] = {name: _shorten(sub, defs, answer) for name, sub in schema["properties"].items()}
        # Answers stay open, so that a client with an older schema accepts newer fields; what is nested in a request
        # is checked by the server, and only its root says so.
        short.pop("additionalProperties", None)
        if answer:
            short["required"] = [n for n in schema.get("required", []) if not _nullable(schema["properties"][n])]
    elif short.get("additionalProperties") in (True, {}) or _is_any(schema.get("additionalProperties"), defs):
        short.pop("additionalProperties")
    elif isinstance(schema.get("additionalProperties"), dict):
        short["additionalProperties"] = _shorten(schema["additionalProperties"], defs, answer)
    if "items" in schema:
        short["items"] = _shorten(schema["items"], defs, answer)
    return short


def _put_alternatives(short: Schema, alternatives: list[Schema], answer: bool) -> None:
    """Write a union: null goes, and a request shows only the first of its alternatives, since some clients refuse a
    value of more than one type. It can say all that the others can, and the server takes those too.
    """
    real = [sub for sub in alternatives if sub.get("type") != "null"]
    if answer and len(real) > 1:
        short["anyOf"] = real
    else:
        short.update({name: value for name, value in real[0].items() if name not in short})


def _nullable(schema: Schema) -> bool:
    return any(sub.get("type") == "null" for sub in schema.get("anyOf", []))


def _is_any(schema: object, defs: Mapping[str, Schema]) -> bool:
    return isinstance(schema, dict) and not defs.get(str(cast(Schema, schema).get("$ref")).removeprefix("#/$defs/"), 1)


def _without_description(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "description"}


def _without_repeats(schema: Schema, outer: Mapping[str, Schema]) -> Schema:
    """Leave out of a list's item what the outer object says already: `items` has the fields of a single store."""
    item = schema.get("items")
    if not isinstance(item, dict) or "properties" not in item:
        return schema
    inner = cast(Schema, item)
    required = set(cast("list[str]", inner.get("required", [])))
    kept = {
        name: _without_description(sub) if name in outer else sub
        for name, sub in cast("dict[str, Schema]", inner["properties"]).items()
        if name in required or outer.get(name) != sub
    }
    return {**schema, "items": {**inner, "properties": kept}}
