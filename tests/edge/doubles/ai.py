"""Workers AI's embedding models: their names, shapes, limits and errors, with real vectors of the local model.

A vector of the laptop's model (384 numbers) is padded with zeros to the dimension of the edge model, which changes no
cosine. Shapes and limits are those of the models' documented schemas; error texts are those that production was seen
to send (2024 to 2026), and a comment says where one is ours.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from tests.edge.doubles.faults import Faults
from tests.edge.doubles.invocation import subrequest
from tests.edge.doubles.sdk import JsError, JsValue, call

from shoal.core.fakes import FakeEmbedder
from shoal.core.protocols import Embedder, Role, Vector
from shoal.local.embedding import open_embedder

LOCAL_DIM: Final = 384
"""Of the laptop's default model."""
CACHE_TEXTS: Final = 20_000
"""About 1.5 kB each."""
ASCII_CHARS_PER_TOKEN: Final = 3


@dataclass(frozen=True, slots=True)
class EdgeModel:
    """What is documented of a model."""

    dim: int
    fields: Mapping[str, Role]
    """The inputs that hold texts, and what a text in them is to the search."""
    options: tuple[str, ...]
    window: int
    """Tokens of one text; longer ones are refused."""
    texts_max: int = 100
    """Of one field."""
    total_tokens_max: int | None = None
    """Of all texts of a call."""
    pooling: str | None = None
    """What the answer says by default, or None when it says nothing."""


_TEXT: Final = {"text": Role.PASSAGE}
"""The call doesn't say whether a text is a query; the local model treats it as a passage."""


def _bge(dim: int) -> EdgeModel:
    # Longer texts than 512 tokens are cut by some accounts of it and refused by others: refused here.
    return EdgeModel(dim, _TEXT, ("pooling",), window=512, pooling="mean")


MODELS: Final = {
    "@cf/baai/bge-m3": EdgeModel(
        1024, _TEXT, ("truncate_inputs",), window=8192, total_tokens_max=60_000, pooling="cls"
    ),
    "@cf/baai/bge-small-en-v1.5": _bge(384),
    "@cf/baai/bge-base-en-v1.5": _bge(768),
    "@cf/baai/bge-large-en-v1.5": _bge(1024),
    "@cf/qwen/qwen3-embedding-0.6b": EdgeModel(
        1024,
        {"queries": Role.QUERY, "documents": Role.PASSAGE, "text": Role.PASSAGE},
        ("instruction",),
        window=8192,
        texts_max=32,
    ),
    # Its schema names no greatest number of texts: that of the others.
    "@cf/google/embeddinggemma-300m": EdgeModel(768, _TEXT, (), window=2048),
}


class AiFault(StrEnum):
    """How a call can be made to fail."""

    RATE_LIMITED = "rate_limited"
    CAPACITY = "capacity"
    """429 too, but of the service, not of the caller."""
    DAILY = "daily"
    """The free allocation of the day is used up, in the words of the service."""
    ACCOUNT_LIMITED = "account_limited"
    """The same in the words and with the code of the documentation."""
    INTERNAL = "internal"
    TIMEOUT = "timeout"
    """The call hangs until `faults.release()` and then fails."""


_USED_UP: Final = "ou have used up your daily free allocation of 10,000 neurons"
_UPGRADE: Final = "lease upgrade to Cloudflare's Workers Paid plan if you would like to continue usage."
_ERRORS: Final = {
    AiFault.RATE_LIMITED: "3021: Rate limit exceeded",
    AiFault.CAPACITY: "3040: Capacity temporarily exceeded, please try again.",
    AiFault.DAILY: f"4006: y{_USED_UP}, p{_UPGRADE}",
    AiFault.ACCOUNT_LIMITED: f"3036: Y{_USED_UP}. P{_UPGRADE}",
    AiFault.INTERNAL: "3043: Internal server error",
    AiFault.TIMEOUT: "3046: Request timeout",
}


class AiEngine:
    """Answers `run`. A text that holds `poison` (None: none does) always fails the call that it is in.

    Made by `hashed` for tests of anything but meaning, and by `local` with the real model.
    """

    def __init__(self, embedder: Embedder, close: Callable[[], None] = lambda: None) -> None:
        if embedder.dim != LOCAL_DIM:
            raise ValueError(f"an embedder of {LOCAL_DIM} dimensions, not {embedder.dim}")
        self.poison: str | None = None
        self.faults = Faults(AiFault)
        self._embedder = embedder
        self.close: Final = close
        """End the model's threads, if it has any."""
        self._known: OrderedDict[tuple[Role, str], Vector] = OrderedDict()

    @classmethod
    def hashed(cls) -> "AiEngine":
        """Return an engine that hashes words: fast, and understands nothing."""
        return cls(FakeEmbedder(LOCAL_DIM))

    @classmethod
    def local(cls, cache_dir: Path) -> "AiEngine":
        """Return an engine with the laptop's default model, which is converted once into `cache_dir`."""
        embedder = open_embedder(None, None, cache_dir)
        return cls(embedder, embedder.close)

    async def run(self, model: JsValue = None, inputs: JsValue = None, options: JsValue = None) -> JsValue:
        """Return `{"shape", "data"}` and, where the model says it, `"pooling"`. Raises JsError.

        `options` (a gateway and the like) change nothing.
        """
        fault = self.faults.take("run")
        if fault is not None:
            if fault.kind == AiFault.TIMEOUT:
                await self.faults.hang()
            raise _error(_ERRORS[AiFault(fault.kind)])
        known = MODELS.get(model) if isinstance(model, str) else None
        if known is None:
            raise _error(f"5007: No such model {model} or task")
        if not isinstance(inputs, dict):
            _invalid("Type mismatch of '/', not in 'object'")
        given = cast("dict[str, JsValue]", inputs)
        texts = _check_inputs(known, given)
        if self.poison is not None and any(self.poison in text for _, text in texts):
            raise _error(_ERRORS[AiFault.INTERNAL])
        data = [_padded(vector, known.dim) for vector in await self._vectors(texts)]
        answer: dict[str, JsValue] = {"shape": [len(data), known.dim], "data": data}
        return answer if known.pooling is None else {**answer, "pooling": given.get("pooling", known.pooling)}

    async def _vectors(self, texts: Sequence[tuple[Role, str]]) -> list[Vector]:
        for role in Role:
            wanted = [text for of, text in dict.fromkeys(texts) if of is role and (of, text) not in self._known]
            if wanted:
                made = await self._embedder.embed(wanted, role)
                self._known.update(((role, text), vector) for text, vector in zip(wanted, made, strict=True))
        vectors = [self._known[key] for key in texts]
        while len(self._known) > CACHE_TEXTS:
            self._known.popitem(last=False)
        return vectors


class AiBinding:
    """What a Worker's Python has as `env.AI`: the SDK's wrapper around the binding."""

    def __init__(self, engine: AiEngine) -> None:
        self._engine = engine

    def run(self, model: object, inputs: object, *args: object, **options: object) -> Awaitable[Any]:
        """Run a model. Raises JsError or TypeError."""

        async def run(*converted: JsValue) -> JsValue:
            async with subrequest("ai.run"):
                # Others run while a model works, also when all its texts are known.
                await asyncio.sleep(0)
                return await self._engine.run(*converted)

        return call(run, (model, inputs, *args), options)


def tokens(text: str) -> int:
    """Estimate a text's tokens, on the high side: one for each character outside ASCII, one for three within."""
    wide = sum(not char.isascii() for char in text)
    return wide + -(-(len(text) - wide) // ASCII_CHARS_PER_TOKEN)


def _check_inputs(model: EdgeModel, inputs: dict[str, JsValue]) -> list[tuple[Role, str]]:
    """Return the texts in the order of the answer, cut to the window where that was asked for."""
    unknown = sorted(set(inputs) - set(model.fields) - set(model.options))
    if unknown:
        # Production passes over a name that it doesn't know; here it is refused, since it hides a mistake.
        _invalid(f"unknown property '/{unknown[0]}'")
    if not set(inputs) & set(model.fields):
        _invalid(f"oneOf at '/' not met, 0 matches: required properties at '/' are '{next(iter(model.fields))}'")
    if inputs.get("pooling", "cls") not in ("mean", "cls"):
        _invalid("Type mismatch of '/pooling', not in 'mean,cls'")
    cuts = inputs.get("truncate_inputs", False)
    if not isinstance(cuts, bool):
        _invalid("Type mismatch of '/truncate_inputs', not in 'boolean'")
    if not isinstance(inputs.get("instruction", ""), str):
        _invalid("Type mismatch of '/instruction', not in 'string'")
    found = [
        (role, text)
        for field, role in model.fields.items()
        if field in inputs
        for text in _check_texts(field, inputs[field], model)
    ]
    return [(role, _fit(text, model.window) if cuts else text) for role, text in _check_tokens(found, model, cuts)]


def _check_texts(field: str, given: JsValue, model: EdgeModel) -> list[str]:
    texts = cast("list[JsValue]", given if isinstance(given, list) else [given])
    if not texts:
        # The schema allows it and says nothing of the answer.
        _invalid(f"Length of '/{field}' must be >= 1")
    if len(texts) > model.texts_max:
        _invalid(f"Length of '/{field}' must be <= {model.texts_max}")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            _invalid(f"Type mismatch of '/{field}/{number}', not in 'string'")
        if not text:
            _invalid(f"Length of '/{field}/{number}' must be >= 1")
    return cast("list[str]", texts)


def _check_tokens(found: list[tuple[Role, str]], model: EdgeModel, cuts: bool) -> list[tuple[Role, str]]:
    counts = [tokens(text) for _, text in found]
    longest = max(counts)
    if longest > model.window and not cuts:
        raise _error(f"3030: Sequence too long: {longest} > {model.window}", "AiError")
    total = sum(min(count, model.window) for count in counts)
    if model.total_tokens_max is not None and total > model.total_tokens_max:
        most = model.total_tokens_max
        raise _error(f"3030: Max context reached {total} tokens but model supports only {most}", "AiError")
    return found


def _fit(text: str, window: int) -> str:
    while tokens(text) > window:
        text = text[: len(text) * window // tokens(text)]
    return text


def _padded(vector: Vector, dim: int) -> list[float]:
    return [*vector, *[0.0] * (dim - len(vector))]


def _error(message: str, name: str = "InferenceUpstreamError") -> JsError:
    return JsError(message, name)


def _invalid(reason: str) -> NoReturn:
    """Raise the error of an input against the schema. Its beginning is production's; the reasons are partly ours."""
    raise _error(f"5006: Error: {reason}", "AiError")
