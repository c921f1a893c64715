"""The edge's Embedder: a model on Workers AI."""

import asyncio
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from shoal.core.protocols import Calibration, ModelState, Phase, Role, Vector
from shoal.schema.errors import ModelBusy, ModelError, ModelOverQuota, ModelUnavailable
from shoal.worker.bindings import AiBinding
from shoal.worker.budget import Budget
from shoal.worker.configuration import Clock
from shoal.worker.models import EdgeModel
from shoal.worker.quotas import RESET, next_reset

WAIT_S: Final = 30.0
"""How long one call may take; a hundred passages take about a second. A search waits less (core/finding.py)."""
CALLS_KEPT: Final = 8
"""Calls that the model leaves of an invocation's: what it has made must still reach the index and the database, and
what is left the queue."""

# The internal codes of Workers AI's table of errors, and 4006, which production sends where the table says 3036.
_CODE: Final = re.compile(r"\b([345]0[0-4]\d)\b")
_OVER_QUOTA: Final = frozenset({"3036", "4006"})
_BUSY: Final = frozenset({"3007", "3008", "3021", "3040", "3046"})
_NOT_OURS: Final = frozenset({"3023", "3041", "3042", "5007", "5016", "5018"})
_OVER_QUOTA_TEXT: Final = re.compile(r"daily free allocation|\bneurons\b", re.IGNORECASE)
_BUSY_TEXT: Final = re.compile(
    r"\b429\b|too many requests|rate.?limit|capacity|timed? ?-?out|subrequests|connection lost", re.IGNORECASE
)


class WorkersAiEmbedder:
    """Implements core's Embedder on an AI binding. Good for one invocation, whose budget it keeps."""

    def __init__(self, binding: AiBinding, model: EdgeModel, clock: Clock, budget: Budget) -> None:
        self._binding = binding
        self._model = model
        self._clock = clock
        self._budget = budget

    @property
    def state(self) -> ModelState:
        """Ready: it is loaded elsewhere, and a refusal is told where it happens."""
        return ModelState(Phase.READY)

    @property
    def fingerprint(self) -> str:
        """See core.protocols."""
        return self._model.fingerprint

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._model.dim

    @property
    def calibration(self) -> Calibration | None:
        """None: it is measured in the background and kept in the database (core/calibrating.py)."""
        return None

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """Return one unit vector a text, in order, with as few calls of the service as they fit in: a query in one.

        Raises ModelBusy, ModelOverQuota, ModelUnavailable, and ModelError for what was refused.
        """
        vectors: list[Vector] = []
        for part in self._model.calls(texts, role):
            vectors += self._vectors(await self._run(self._model.inputs(part, role)), len(part))
        return vectors

    async def _run(self, inputs: dict[str, Any]) -> Any:
        if not (self._budget.allows(0, CALLS_KEPT + 1) and self._budget.take("ai")):
            raise ModelBusy("One request may make no more calls.", "The rest is done in the next.")
        try:
            return await asyncio.wait_for(self._binding.run(self._model.name, inputs), WAIT_S)
        except TimeoutError:
            failure: ModelError = ModelBusy(f"The model did not answer within {WAIT_S:.0f} s.", "Try again later.")
        except TypeError:
            raise  # A value that the runtime can't pass on: a fault of ours.
        except Exception as error:
            # Its text may quote what was embedded, so it goes no further.
            failure = translate(str(error), self._model.name, self._clock())
        raise failure

    def _vectors(self, answer: object, count: int) -> list[Vector]:
        made = cast("Mapping[str, Any]", answer).get("data") if isinstance(answer, Mapping) else None
        if not isinstance(made, list) or len(cast("list[Any]", made)) != count:
            raise ModelError(
                f"The model {self._model.name} did not answer with {count} vectors.", "Check the variable MODEL."
            )
        return [self._unit(cast("Sequence[float]", vector)) for vector in cast("list[Any]", made)]

    def _unit(self, vector: Sequence[float]) -> Vector:
        if len(vector) != self._model.dim:
            raise ModelUnavailable(
                f"The model {self._model.name} makes vectors of length {len(vector)}, not {self._model.dim}.",
                "Set the length in the variable MODEL, and use an index of that length.",
            )
        norm = math.hypot(*vector)
        if not (norm > 0 and math.isfinite(norm)):
            raise ModelError("The model answered with what is no direction.", "Try again.")
        # As the 32 bits that the index keeps: a long memory has a thousand vectors, and lists of them are 32 kB each.
        return array("f", [number / norm for number in vector])


def translate(text: str, model: str, now_ms: int) -> ModelError:
    """Return the error that a person should see, from the text of the service's."""
    found = _CODE.search(text)
    code = found[1] if found else ""
    if code in _OVER_QUOTA or _OVER_QUOTA_TEXT.search(text):
        until = next_reset(now_ms)
        return ModelOverQuota(
            "The daily quota of Workers AI is used up.",
            f"It is given anew at {until} ({RESET}); a paid plan goes on.",
            until=until,
        )
    if code in _BUSY or _BUSY_TEXT.search(text):
        return ModelBusy("Workers AI takes no more requests for a moment.", "Try again in a moment.")
    if code in _NOT_OURS:
        return ModelUnavailable(
            f"Workers AI does not run {model} for this account (error {code}).", "Check the variable MODEL."
        )
    return ModelError(f"Workers AI refused (error {code or 'without a code'}).", "It is tried again by itself.")
