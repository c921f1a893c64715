"""What Vectorize accepts: vectors, ids, query options, filters. Everything here raises JsError with production's text.

Codes and texts are those that production was seen to send (2024 to 2026); where a text is ours, the code is the
nearest one known and the comment says so. Limits: Vectorize's page of limits.
"""

import math
import operator
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

from tests.edge.doubles.sdk import JsError, JsValue, json_bytes

DIMENSIONS_MAX: Final = 1536
ID_MAX_BYTES: Final = 64
NAMESPACE_MAX_BYTES: Final = 64
METADATA_MAX_BYTES: Final = 10_240
"""Of the compact JSON."""
METADATA_INDEXES_MAX: Final = 10
INDEXED_MAX_BYTES: Final = 64
"""How much of a string a metadata index keeps."""
UPSERT_MAX_VECTORS: Final = 1_000
"""From a Worker; over HTTP it is 5,000."""
GET_MAX_IDS: Final = 20
DELETE_MAX_IDS: Final = 100
TOP_K_DEFAULT: Final = 5
TOP_K_MAX: Final = 100
TOP_K_MAX_HEAVY: Final = 20
"""With values or all metadata. The documentation says 20 and, since 2026, 50, which production also answered; the
stricter counts here."""
FILTER_BYTES: Final = 2_048
"""The compact JSON of a filter must be shorter than this."""
FILTER_KEY_MAX_CHARS: Final = 512

COMPARISONS: Final = ("$eq", "$ne", "$lt", "$lte", "$gt", "$gte")
COLLECTIONS: Final = ("$in", "$nin")
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$lt": operator.lt,
    "$lte": operator.le,
    "$gt": operator.gt,
    "$gte": operator.ge,
}

Scalar = str | float | bool | None
IndexTypes = Mapping[str, str]
"""Property to `string`, `number` or `boolean`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A vector as it was sent. `indexed` holds what the metadata indexes of that moment took of its metadata."""

    id: str
    values: "array[float]"
    """float32."""
    namespace: str | None
    metadata: dict[str, JsValue] | None
    indexed: dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a filter; all must hold."""

    key: str
    op: str
    operand: Any


@dataclass(frozen=True, slots=True)
class Query:
    """The options of a query, checked."""

    top_k: int
    values: bool
    metadata: str
    """`none`, `indexed` or `all`."""
    namespace: str | None
    conditions: tuple[Condition, ...]


def fail(operation: str, code: int, text: str) -> NoReturn:
    """Raise the error of an operation such as `VECTOR_QUERY`."""
    raise JsError(f"{operation}_ERROR (code = {code}): {text}")


def check_vectors(operation: str, vectors: JsValue, dimensions: int, indexes: IndexTypes) -> list[Stored]:
    """Return what an upsert or insert stores. One bad vector refuses them all."""
    # An empty list is not documented; the service parses a line for each vector, so none at all is refused here.
    if not isinstance(vectors, list) or not vectors:
        _unparsed(operation)
    rows = cast("list[JsValue]", vectors)
    if len(rows) > UPSERT_MAX_VECTORS:
        # The text is ours.
        fail(operation, 40007, f"too many vectors in payload; max is {UPSERT_MAX_VECTORS}, got {len(rows)}")
    return [_check_vector(operation, row, dimensions, indexes) for row in rows]


def check_ids(operation: str, ids: JsValue, most: int) -> list[str]:
    """Return the ids of a get or delete."""
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in cast("list[JsValue]", ids)):
        fail(operation, 40026, "Failed to parse the request body as JSON: ids: expected strings")
    known = cast("list[str]", ids)
    if not known:
        fail(operation, 40007, "no ids in payload")  # not documented: refused, as the caller means nothing by it
    if len(known) > most:
        fail(operation, 40007, f"too many ids in payload; max id count is {most}, got {len(known)}")
    for id_ in known:
        _check_id(operation, id_)
    return known


def check_query_vector(vector: JsValue, dimensions: int) -> "array[float]":
    """Return the query's vector as float32."""
    values = _float32(vector)
    if values is None:
        fail("VECTOR_QUERY", 40026, "Failed to parse the request body as JSON: vector: expected numbers")
    if len(values) != dimensions:
        text = f"invalid query vector, expected {dimensions} dimensions, and got {len(values)} dimensions"
        fail("VECTOR_QUERY", 40006, text)
    return values


def check_query(options: JsValue) -> Query:
    """Return the options of a query."""
    if options is None:
        options = {}
    if not isinstance(options, dict):
        _bad_option("options", "expected an object")
    given = cast("dict[str, JsValue]", options)
    unknown = sorted(set(given) - {"topK", "namespace", "returnValues", "returnMetadata", "filter"})
    if unknown:
        # Production may pass over a name that it doesn't know, and then answers something else than was meant.
        _bad_option(unknown[0], "unknown option")
    values = given.get("returnValues", False)
    if not isinstance(values, bool):
        _bad_option("returnValues", "expected a boolean")
    metadata = _metadata_level(given.get("returnMetadata", "none"))
    namespace = given.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        _bad_option("namespace", "expected a string")
    conditions = check_filter(given["filter"]) if "filter" in given else ()
    return Query(_top_k(given.get("topK", TOP_K_DEFAULT), values, metadata), values, metadata, namespace, conditions)


def check_filter(given: JsValue) -> tuple[Condition, ...]:
    """Return a filter's conditions. The rules are documented; the texts are ours."""
    if not isinstance(given, dict) or not given:
        _bad_option("filter", "expected an object that is not empty")
    size = len(_json("VECTOR_QUERY", cast("JsValue", given)))
    if size >= FILTER_BYTES:
        _bad_option("filter", f"must be less than {FILTER_BYTES} bytes, got {size} bytes")
    conditions: list[Condition] = []
    for key, value in cast("dict[str, JsValue]", given).items():
        _check_filter_key(key)
        if not isinstance(value, dict):
            conditions.append(Condition(key, "$eq", _scalar(key, value)))
            continue
        conditions += _comparisons(key, cast("dict[str, JsValue]", value))
    return tuple(conditions)


def matches(stored: Stored, conditions: Sequence[Condition], indexes: IndexTypes) -> bool:
    """Whether a vector passes a filter, as far as the metadata indexes know it.

    A property without an index matches nothing, and so does a vector without the property, also for `$ne` and `$nin`:
    what production does there isn't documented, and who relies on it should see it here.
    """
    for condition in conditions:
        value = stored.indexed.get(condition.key)
        if condition.key not in indexes or value is None or not _holds(condition, value):
            return False
    return True


def indexed_values(metadata: Mapping[str, JsValue] | None, indexes: IndexTypes) -> dict[str, Scalar]:
    """Return what the indexes keep of a vector's metadata: values of their type, strings cut to 64 bytes."""
    kept: dict[str, Scalar] = {}
    for key, type_ in indexes.items():
        value = _property(metadata or {}, key)
        if type_ == "string" and isinstance(value, str):
            kept[key] = cut(value)
        elif (type_ == "boolean" and isinstance(value, bool)) or (type_ == "number" and _is_number(value)):
            kept[key] = value
    return kept


def cut(text: str) -> str:
    """Return the longest beginning of the text of at most 64 bytes that splits no character."""
    return text.encode()[:INDEXED_MAX_BYTES].decode(errors="ignore")


def _check_vector(operation: str, row: JsValue, dimensions: int, indexes: IndexTypes) -> Stored:
    if not isinstance(row, dict):
        _unparsed(operation)
    given = cast("dict[str, JsValue]", row)
    id_, namespace, metadata = given.get("id"), given.get("namespace"), given.get("metadata")
    values = _float32(given.get("values"))
    if not isinstance(id_, str) or values is None or set(given) - {"id", "values", "namespace", "metadata"}:
        _unparsed(operation)
    _check_id(operation, id_)
    if len(values) != dimensions:
        got = f"expected {dimensions} dimensions, and got {len(values)} dimensions"
        fail(operation, 40012, f'invalid vector for id="{id_}", {got}')
    if namespace is not None:
        if not isinstance(namespace, str):
            _unparsed(operation)
        if (size := len(namespace.encode())) > NAMESPACE_MAX_BYTES:
            # The code and the text are ours, after those of an id.
            fail(operation, 40009, f"namespace too long; max is {NAMESPACE_MAX_BYTES} bytes, got {size} bytes")
    if metadata is not None:
        _check_metadata(operation, id_, metadata)
    return Stored(id_, values, namespace, metadata, indexed_values(metadata, indexes))


def _check_id(operation: str, id_: str) -> None:
    size = len(_utf8(operation, id_))
    if size > ID_MAX_BYTES:
        fail(operation, 40008, f"id too long; max is {ID_MAX_BYTES} bytes, got {size} bytes")
    if not size:
        fail(operation, 40008, "id is empty")  # the text is ours


def _check_metadata(operation: str, id_: str, metadata: JsValue) -> None:
    if not isinstance(metadata, dict):
        _unparsed(operation)
    size = len(_json(operation, cast("JsValue", metadata)))
    if size > METADATA_MAX_BYTES:
        rule = f"the compact JSON representation of the metadata must not exceed {METADATA_MAX_BYTES} bytes"
        fail(operation, 40016, f'oversized metadata for vector id="{id_}"; {rule}, got {size} bytes')
    for key in cast("dict[str, JsValue]", metadata):
        if not key or "." in key or '"' in key or key.startswith("$"):
            # Documented; the code and the text are ours.
            fail(operation, 40015, f'invalid metadata key "{key}" for vector id="{id_}"')


def _float32(values: JsValue) -> "array[float] | None":
    """Return the numbers in float32, or None when one is none: JSON knows neither NaN nor infinity."""
    if not isinstance(values, list | array):
        return None
    numbers = cast("Sequence[JsValue]", values)
    if not all(_is_number(number) and math.isfinite(number) for number in numbers):
        return None
    return array("f", numbers)


def _is_number(value: JsValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _utf8(operation: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        _unparsed(operation)


def _json(operation: str, value: JsValue) -> bytes:
    try:
        return json_bytes(value)
    except UnicodeEncodeError:
        _unparsed(operation)


def _unparsed(operation: str) -> NoReturn:
    if operation == "VECTOR_QUERY":
        fail(operation, 40026, "Failed to parse the request body as JSON")
    what = operation.removeprefix("VECTOR_").lower()
    fail(operation, 40023, f"failed to parse {what} vectors request in json format")


def _bad_option(name: str, reason: str) -> NoReturn:
    fail("VECTOR_QUERY", 40026, f"Failed to parse the request body as JSON: {name}: {reason}")


def _metadata_level(given: JsValue) -> str:
    if given is True:
        return "all"
    if given is False:
        # The binding means to turn it into 'none' but sends it as it is, and the service refuses it.
        _bad_option("returnMetadata", "expected value")
    if given not in ("none", "indexed", "all"):
        expected = 'Expected: true, false, "none", "indexed" or "all"'
        raise JsError(f"Invalid returnMetadata option. {expected}; got: {given}")
    return str(given)


def _top_k(given: JsValue, values: bool, metadata: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        _bad_option("topK", "expected a positive integer")
    heavy = values or metadata == "all"
    most = TOP_K_MAX_HEAVY if heavy else TOP_K_MAX
    if given <= most:
        return given
    if not heavy:
        fail("VECTOR_QUERY", 40025, f"max top K is {most}, but got {given}")
    mend = f"for a top K up to {TOP_K_MAX}, retry with returnValues=false and returnMetadata=indexed"
    why = f"with returnValues=true or returnMetadata=all, max top K is {most}, but got {given}"
    fail("VECTOR_QUERY", 40025, f"{why}; {mend}")


def _check_filter_key(key: str) -> None:
    if not key or '"' in key or key.startswith("$") or len(key) > FILTER_KEY_MAX_CHARS or "" in key.split("."):
        _bad_option("filter", f'invalid key "{key[:FILTER_KEY_MAX_CHARS]}"')


def _comparisons(key: str, given: dict[str, JsValue]) -> list[Condition]:
    known = [op for op in given if op in COMPARISONS or op in COLLECTIONS]
    if not given or len(known) != len(given):
        _bad_option("filter", f'"{key}" needs operators, of {", ".join((*COMPARISONS, *COLLECTIONS))}')
    if any(op in COLLECTIONS for op in given) and any(op in COMPARISONS for op in given):
        # The binding's types allow either kind; that both together work is nowhere said.
        _bad_option("filter", f'"{key}" mixes comparisons with $in or $nin')
    conditions: list[Condition] = []
    for op, operand in given.items():
        if op in COMPARISONS:
            conditions.append(Condition(key, op, _scalar(key, operand)))
            continue
        if not isinstance(operand, list) or not operand:
            _bad_option("filter", f'"{key}": {op} needs a list that is not empty')
        items = [_scalar(key, item) for item in cast("list[JsValue]", operand)]
        if None in items:
            _bad_option("filter", f'"{key}": {op} takes no null')
        conditions.append(Condition(key, op, items))
    return conditions


def _scalar(key: str, value: JsValue) -> Scalar:
    if value is None or isinstance(value, str | bool) or _is_number(value):
        return value
    _bad_option("filter", f'"{key}" compares with a string, number, boolean or null')


def _property(metadata: Mapping[str, JsValue], path: str) -> JsValue:
    value: JsValue = metadata
    for name in path.split("."):
        value = cast("dict[str, JsValue]", value).get(name) if isinstance(value, dict) else None
    return value


def _holds(condition: Condition, value: Scalar) -> bool:
    op, operand = condition.op, condition.operand
    if op in COLLECTIONS:
        return any(_equal(value, item) for item in operand) == (op == "$in")
    if op in ("$eq", "$ne"):
        return _equal(value, operand) == (op == "$eq")
    comparable = (_is_number(value) and _is_number(operand)) or (isinstance(value, str) and isinstance(operand, str))
    return comparable and _ORDERS[op](value, operand)


def _equal(value: Scalar, operand: Scalar) -> bool:
    # True is no 1 here. A longer string than the index keeps equals nothing: that production cuts it is nowhere said.
    return isinstance(value, bool) == isinstance(operand, bool) and value == operand
