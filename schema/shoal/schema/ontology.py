"""What a memory can be: 13 base types with subtypes, their kind and retention, and how memories relate.

A memory's type is a base type or a subtype. Users may add subtypes in their configuration
(`Ontology.extended`); anything else is refused. Words of other tools map to types by `SYNONYMS`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from shoal.schema.errors import InvalidSettings, UnknownType


class Kind(StrEnum):
    """How a memory ages: what happened, what is known, how something is done."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


@dataclass(frozen=True, slots=True)
class BaseType:
    """A base type: its kind, how long it stays relevant, and its subtypes."""

    kind: Kind
    retention_days: int
    subtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What is known of one type: its base, kind and retention in days."""

    name: str
    base: str
    kind: Kind
    retention_days: int


def _base(kind: Kind, retention_days: int, subtypes: str) -> BaseType:
    return BaseType(kind, retention_days, tuple(subtypes.split()))


BASE_TYPES: Final[Mapping[str, BaseType]] = MappingProxyType(
    {
        "observation": _base(
            Kind.EPISODIC,
            30,
            "code_edit file_access search command conversation conversation_turn session document note reference"
            " user_correction tool_outcome preference_signal",
        ),
        "decision": _base(Kind.SEMANTIC, 365, "architecture tool_choice approach configuration"),
        "learning": _base(Kind.SEMANTIC, 180, "insight best_practice anti_pattern gotcha"),
        "error": _base(Kind.EPISODIC, 90, "bug failure exception traceback timeout mistake"),
        "pattern": _base(Kind.SEMANTIC, 180, "recurring_issue code_smell design_pattern workflow"),
        "planning": _base(
            Kind.SEMANTIC,
            60,
            "sprint_goal backlog_item story_point_estimate velocity retrospective standup_note acceptance_criteria",
        ),
        "ceremony": _base(
            Kind.EPISODIC,
            30,
            "sprint_review sprint_planning daily_standup retrospective_action demo_feedback",
        ),
        "milestone": _base(Kind.EPISODIC, 90, "deliverable dependency risk constraint assumption deadline"),
        "stakeholder": _base(
            Kind.SEMANTIC, 180, "requirement feedback escalation approval change_request status_update"
        ),
        "meeting": _base(Kind.EPISODIC, 60, "action_item attendee_note agenda_item follow_up minutes"),
        "research": _base(Kind.SEMANTIC, 180, "finding comparison recommendation source hypothesis"),
        "communication": _base(Kind.EPISODIC, 30, "email_summary chat_summary announcement request response"),
        "procedure": _base(Kind.PROCEDURAL, 730, "runbook recipe how_to skill"),
    }
)

_LASTING: Final = ("note", "reference", "document", "preference_signal", "user_correction")
"""Observations that state a fact: one that nobody asked for in three months must still be found."""
_LASTING_RETENTION_DAYS: Final = 365

SYNONYMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "episodic": "observation",
        "semantic": "learning",
        "procedural": "procedure",
        "fact": "reference",
        "preference": "preference_signal",
        "task": "action_item",
        "event": "observation",
        "instruction": "how_to",
        "memory": "note",
        "none": "note",
        "": "note",
    }
)
"""Other tools' words, and kinds, to types."""

DEFAULT_TYPE: Final = "note"
FOREIGN_BASE: Final = "observation"
"""The base type as which types count that another replica's user added, or this one's has taken out again."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
"""As `resolve` spells a caller's word: another name could never be used."""


class Ontology:
    """The types that are allowed: the built-in ones and the user's own subtypes."""

    def __init__(self, types: Mapping[str, TypeInfo]) -> None:
        self._types = dict(types)

    @classmethod
    def builtin(cls) -> Self:
        """Return the 13 base types with all their subtypes."""
        types: dict[str, TypeInfo] = {}
        for name, base in BASE_TYPES.items():
            types[name] = TypeInfo(name, name, base.kind, base.retention_days)
            for sub in base.subtypes:
                lasting = sub in _LASTING
                types[sub] = TypeInfo(
                    sub,
                    name,
                    Kind.SEMANTIC if lasting else base.kind,
                    _LASTING_RETENTION_DAYS if lasting else base.retention_days,
                )
        return cls(types)

    def extended(self, extra: Mapping[str, str]) -> "Ontology":
        """Return this ontology with the user's subtypes added: {subtype: base type}.

        Raises InvalidSettings when a base is unknown or a name is taken (by a synonym too) or malformed.
        """
        types = dict(self._types)
        for name, base in extra.items():
            parent = BASE_TYPES.get(base)
            if parent is None or name in types or name in SYNONYMS or not _NAME.fullmatch(name):
                raise InvalidSettings(
                    f"The type {name!r} under {base!r} can't be added.",
                    "Give a new name of a-z, 0-9 and _ with a letter first, under one of: "
                    + ", ".join(BASE_TYPES)
                    + ".",
                )
            types[name] = TypeInfo(name, base, parent.kind, parent.retention_days)
        return Ontology(types)

    def names(self) -> tuple[str, ...]:
        """Return all type names, base types before their subtypes."""
        return tuple(self._types)

    def info(self, name: str) -> TypeInfo:
        """Return what is known of a type; a foreign one counts as FOREIGN_BASE."""
        known = self._types.get(name)
        if known is not None:
            return known
        base = BASE_TYPES[FOREIGN_BASE]
        return TypeInfo(name, FOREIGN_BASE, base.kind, base.retention_days)

    def resolve(self, name: str | None) -> TypeInfo:
        """Return the type for a caller's word: a type, a kind, or another tool's word; None means `note`.

        Raises UnknownType with the list of types.
        """
        word = DEFAULT_TYPE if name is None else name.strip().lower().replace("-", "_").replace(" ", "_")
        known = self._types.get(word) or self._types.get(SYNONYMS.get(word, ""))
        if known is None:
            raise UnknownType(
                f"{name!r} is not a type.",
                "Use one of: " + "; ".join(f"{b} ({', '.join(t.subtypes)})" for b, t in BASE_TYPES.items()) + ".",
                types=list(self._types),
            )
        return known

    def types_of(self, word: str) -> tuple[str, ...]:
        """Return the types that a filter word covers: a base type covers its subtypes, others themselves."""
        known = self.resolve(word)
        if known.name != known.base:
            return (known.name,)
        return tuple(name for name, info in self._types.items() if info.base == known.name)

    def types_of_kind(self, kind: Kind) -> tuple[str, ...]:
        """Return the types of a kind."""
        return tuple(name for name, info in self._types.items() if info.kind is kind)


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A relation between memories; a symmetric one has no direction."""

    symmetric: bool = False
    sources: tuple[str, ...] = ()
    """Base types that it may start from; empty = any."""
    targets: tuple[str, ...] = ()
    """Base types that it may lead to; empty = any."""


RELATIONS: Final[Mapping[str, RelationInfo]] = MappingProxyType(
    {
        "causes": RelationInfo(),
        "fixes": RelationInfo(targets=("error", "pattern", "observation", "milestone", "stakeholder")),
        "contradicts": RelationInfo(symmetric=True),
        "supports": RelationInfo(),
        "follows": RelationInfo(),
        "related": RelationInfo(symmetric=True),
        "derived_from": RelationInfo(),
        "shares_entity": RelationInfo(symmetric=True),
        "supersedes": RelationInfo(),
        "abstracts": RelationInfo(sources=("learning", "pattern", "procedure", "research", "decision")),
        "summarizes": RelationInfo(),
        "corrects": RelationInfo(),
        "mentions": RelationInfo(),
        "contradicted_by": RelationInfo(),
    }
)
"""`contradicted_by` leads from the older to the newer and is what detection writes; a user asserts `contradicts`."""
