"""What must be known of an embedding model on Workers AI: its input's form, its limits, its vectors' length.

Names, forms and limits are those of Workers AI's model pages; prefixes those of the model cards. What their cosines
mean is measured where they run (core/calibrating.py).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.core.protocols import Role
from shoal.schema.errors import NotConfigured

DIM_MAX: Final = 1536
"""Longest vector that Vectorize keeps."""
TEXTS_MAX: Final = 100
ASCII_CHARS_PER_TOKEN: Final = 3
_DIGEST_CHARS: Final = 8


class Form(StrEnum):
    """Where the texts stand in a call's input."""

    TEXT = "text"
    """{text}: for queries and passages alike."""
    ROLES = "roles"
    """{queries, instruction} or {documents}."""


class EdgeModel(BaseModel):
    """One model. Two that differ in more than what fits into a call make vectors that don't compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^@[a-z0-9-]+/[A-Za-z0-9._/-]+$")]
    dim: Annotated[int, Field(ge=1, le=DIM_MAX)]
    """Length of a vector."""
    form: Form = Form.TEXT
    pooling: Literal["", "mean", "cls"] = ""
    """Sent along where not empty: how the vectors of the tokens become one."""
    query_prefix: str = ""
    passage_prefix: str = ""
    instruction: str = ""
    """For queries, with the form `roles`; empty = the model's own."""
    window: Annotated[int, Field(ge=1)] = 512
    """Tokens of one text, prefix included, by `tokens`; what follows is cut off, since the service refuses it."""
    texts_per_call: Annotated[int, Field(ge=1, le=TEXTS_MAX)] = TEXTS_MAX
    tokens_per_call: Annotated[int | None, Field(ge=1)] = None
    """Of all its texts together, by `tokens`; None where only single texts are bounded."""

    @property
    def fingerprint(self) -> str:
        """The name under which vectors compare. Workers AI tells no revision of a model."""
        asked = json.dumps([self.query_prefix, self.passage_prefix, self.instruction]).encode()
        prefix = hashlib.sha256(asked).hexdigest()[:_DIGEST_CHARS]
        parts = (
            f"workers-ai{self.name}",
            str(self.dim),
            self.pooling or "built_in",
            self.form,
            f"window-{self.window}",
            "l2",
            f"prefix-{prefix}",
        )
        return "/".join(parts)

    def calls(self, texts: Sequence[str], role: Role) -> Iterator[list[str]]:
        """Yield the texts in order, prefixed and cut to the window, as many at a time as one call takes."""
        prefix = self.query_prefix if role is Role.QUERY else self.passage_prefix
        part: list[str] = []
        size = 0
        for text in texts:
            fitting = _cut(prefix + text, self.window)
            more = tokens(fitting)
            over = self.tokens_per_call is not None and size + more > self.tokens_per_call
            if part and (over or len(part) == self.texts_per_call):
                yield part
                part, size = [], 0
            part.append(fitting)
            size += more
        if part:
            yield part

    def inputs(self, prefixed: list[str], role: Role) -> dict[str, Any]:
        """Return what a call takes, for texts that `calls` has yielded."""
        if self.form is Form.TEXT:
            return {"text": prefixed, "pooling": self.pooling} if self.pooling else {"text": prefixed}
        if role is Role.PASSAGE:
            return {"documents": prefixed}
        return {"queries": prefixed, "instruction": self.instruction} if self.instruction else {"queries": prefixed}


def tokens(text: str) -> int:
    """Estimate a text's tokens on the high side, whatever the model: one a character, a third of one in ASCII."""
    ascii_chars = len(text.encode("ascii", "ignore"))
    return len(text) - ascii_chars + -(-ascii_chars // ASCII_CHARS_PER_TOKEN)


def _cut(text: str, window: int) -> str:
    while (size := tokens(text)) > window:
        text = text[: len(text) * window // size]
    return text


_BGE_QUERY: Final = "Represent this sentence for searching relevant passages: "

KNOWN: Final = {
    model.name: model
    for model in (
        EdgeModel(name="@cf/baai/bge-m3", dim=1024, window=8_192, tokens_per_call=60_000),
        # The service's own pooling is `mean`; these were trained with the first token's vector.
        EdgeModel(name="@cf/baai/bge-small-en-v1.5", dim=384, pooling="cls", query_prefix=_BGE_QUERY),
        EdgeModel(name="@cf/baai/bge-base-en-v1.5", dim=768, pooling="cls", query_prefix=_BGE_QUERY),
        EdgeModel(name="@cf/baai/bge-large-en-v1.5", dim=1024, pooling="cls", query_prefix=_BGE_QUERY),
        EdgeModel(
            name="@cf/qwen/qwen3-embedding-0.6b",
            dim=1024,
            form=Form.ROLES,
            window=8_192,
            texts_per_call=32,
            tokens_per_call=8_192,
        ),
        EdgeModel(
            name="@cf/google/embeddinggemma-300m",
            dim=768,
            window=2_048,
            query_prefix="task: search result | query: ",
            passage_prefix="title: none | text: ",
        ),
    )
}
DEFAULT: Final = KNOWN["@cf/baai/bge-m3"]


def model_named(text: str) -> EdgeModel:
    """Return the model that the variable MODEL means: a known name, or an object with `name`, `dim` and what differs.

    Raises NotConfigured, which says what is wrong with it.
    """
    if not text.strip():
        return DEFAULT
    if text.lstrip().startswith("{"):
        return _described(text)
    known = KNOWN.get(text.strip())
    if known is None:
        raise NotConfigured(
            f"The variable MODEL names {text.strip()!a}, of which nothing is known here.",
            f'Use one of {", ".join(KNOWN)}, or an object: {{"name": "@cf/...", "dim": 768}}.',
        )
    return known


def _described(text: str) -> EdgeModel:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise NotConfigured(f"The variable MODEL is not JSON: {error}.", "Mend it in wrangler.toml.") from None
    fields = cast("dict[str, Any]", given)
    known = KNOWN.get(str(fields.get("name")))
    try:
        return EdgeModel.model_validate({**(known.model_dump() if known else {}), **fields})
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise NotConfigured(f"The variable MODEL can't be used: {wrong}.", "Mend it in wrangler.toml.") from None
