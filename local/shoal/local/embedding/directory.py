"""A model that the user keeps in a folder: model.onnx, the tokenizer's files and, optionally, shoal-model.json."""

import hashlib
import json
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shoal.core.protocols import Calibration
from shoal.local.embedding.descriptor import Descriptor, Pooling
from shoal.schema.errors import ModelUnavailable

DESCRIPTION_FILE: Final = "shoal-model.json"
MODEL_FILE: Final = "model.onnx"
_NEEDED: Final = (MODEL_FILE, "tokenizer.json", "tokenizer_config.json")
_DEFAULT_WINDOW: Final = 512


class CalibrationFile(BaseModel):
    """What the model's cosines mean (core.protocols.Calibration)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unrelated: float = Field(ge=-1, le=1)
    related: float = Field(ge=-1, le=1)

    @model_validator(mode="after")
    def _in_order(self) -> "CalibrationFile":
        if self.related <= self.unrelated:
            raise ValueError("related must be above unrelated")
        return self


class DescriptionFile(BaseModel):
    """shoal-model.json. Everything but `dim` has a default; `dim` is then `hidden_size` of config.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = None
    """Default: the folder's name."""
    quantisation: str = "unknown"
    dim: int | None = Field(default=None, gt=0)
    pooling: Pooling = Pooling.MEAN
    window: int = Field(default=_DEFAULT_WINDOW, gt=0)
    query_prefix: str = ""
    passage_prefix: str = ""
    centring: str | None = None
    """A centring file in the folder."""
    calibration: CalibrationFile | None = None


def describe_directory(folder: Path) -> Descriptor:
    """Read what the folder says of its model. Raises ModelUnavailable naming what is missing or wrong."""
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise ModelUnavailable(
            f"{folder} lacks {', '.join(missing)}.",
            "Put the model's ONNX file and its tokenizer's files there, or correct the setting.",
            path=str(folder),
        )
    description = _description(folder)
    dim = description.dim or _hidden_size(folder)
    if dim is None:
        raise ModelUnavailable(
            f"Nothing in {folder} says how long the vectors are.",
            f'Write {{"dim": ...}} into {folder / DESCRIPTION_FILE}.',
            path=str(folder),
        )
    centring = folder / description.centring if description.centring else None
    if centring and not centring.is_file():
        raise ModelUnavailable(
            f"The centring file {centring} doesn't exist.",
            f"Correct `centring` in {folder / DESCRIPTION_FILE}.",
            path=str(folder),
        )
    measured = description.calibration
    return Descriptor(
        name=description.name or folder.name,
        quantisation=description.quantisation,
        dim=dim,
        pooling=description.pooling,
        window=description.window,
        query_prefix=description.query_prefix,
        passage_prefix=description.passage_prefix,
        centring=centring,
        calibration=Calibration(measured.unrelated, measured.related) if measured else None,
    )


def directory_revision(folder: Path) -> str:
    """Return a checksum of the model's and the tokenizer's bytes, external weights included (about 1 s a GB)."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.startswith((MODEL_FILE, "tokenizer")):
            with path.open("rb") as file:
                total.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _description(folder: Path) -> DescriptionFile:
    path = folder / DESCRIPTION_FILE
    if not path.exists():
        return DescriptionFile()
    try:
        return DescriptionFile.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ModelUnavailable(
            f"{path} can't be used: {error}", "Correct the file; docs/embedding.md lists its fields."
        ) from error


def _hidden_size(folder: Path) -> int | None:
    path = folder / "config.json"
    if not path.is_file():
        return None
    try:
        size = json.loads(path.read_bytes()).get("hidden_size")
    except (ValueError, AttributeError) as error:
        raise ModelUnavailable(f"{path} isn't a JSON object.", "Restore the model's config.json.") from error
    return size if isinstance(size, int) and size > 0 else None
