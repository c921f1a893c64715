"""What the owner may choose for an app or a device: scopes space by space, sync, and for how long.

A row a space, named in the form by its number alone: which space that is stands in the handle's payload, together with
the scopes that were offered. So a form can choose among what was shown, and nothing else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shoal.api.messages import Language
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.pages import Html, Part, checkbox, element, isolated, joined, notice, paragraph, told
from shoal.api.oauth.records import CLIENT_SCOPES, DEEDS, SPACE_SCOPES, Reach
from shoal.api.oauth.words import Line
from shoal.core.caller import ALL_SPACES, DEFAULT_SPACE, Scope
from shoal.core.filters import SPACES
from shoal.core.text import clean
from shoal.core.times import MS_PER_DAY
from shoal.schema.errors import InvalidInput
from shoal.schema.limits import SPACE_MAX_CHARS

SPACES_SHOWN_MAX: Final = 50
"""Spaces with a row of their own; others are reached by their name."""
DAYS: Final = (1, 30, 90)
"""For how long access may be given, besides until it is revoked."""

WORDS: Final = {Scope.READ: Line.READ, Scope.WRITE: Line.WRITE, Scope.ADMIN: Line.ADMIN, Scope.SYNC: Line.SYNC}
"""What people call the scopes."""
_ABOUT: Final = {Scope.READ: Line.READ_ABOUT, Scope.WRITE: Line.WRITE_ABOUT, Scope.ADMIN: Line.ADMIN_ABOUT}
_DAYS_LINES: Final = {1: Line.ONE_DAY, 30: Line.DAYS_30, 90: Line.DAYS_90}
_CHECKED_AT_FIRST: Final = frozenset({Scope.READ, Scope.WRITE})

_EVERY: Final = "every"
_OTHER: Final = "other"
_OTHER_NAME: Final = "other-name"
_SYNC: Final = "sync"
_DAYS: Final = "days"


class ChoiceRefused(Exception):
    """The form can't be followed as it is; `line` says why, and nothing was done."""

    def __init__(self, line: Line, **parts: Part) -> None:
        super().__init__(line.name)
        self.line = line
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Offer:
    """What one form lets the owner choose from."""

    scopes: tuple[Scope, ...]
    spaces: tuple[str, ...]
    """A row each, in this order; one for every space and one for another space follow."""
    more: bool = False
    """Whether there are more spaces than rows."""

    def to_payload(self) -> dict[str, Any]:
        """Return the form in which a handle keeps it."""
        return {"scopes": list(self.scopes), "spaces": list(self.spaces), "more": self.more}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Offer":
        """Return what `to_payload` has written."""
        return cls(tuple(map(Scope, payload["scopes"])), tuple(payload["spaces"]), payload["more"])

    @property
    def of_spaces(self) -> tuple[Scope, ...]:
        """Return the scopes that are chosen space by space."""
        return tuple(scope for scope in self.scopes if scope in SPACE_SCOPES)


async def offered(authority: Authority, scopes: frozenset[Scope]) -> Offer:
    """Return what can be chosen of these scopes: `main` first, then the spaces that hold memories."""
    rows = await authority.database.query(f"{SPACES} limit {SPACES_SHOWN_MAX + 1}")
    spaces = tuple(dict.fromkeys((DEFAULT_SPACE, *(str(row["space"]) for row in rows))))
    shown = spaces[:SPACES_SHOWN_MAX]
    return Offer(tuple(scope for scope in CLIENT_SCOPES if scope in scopes), shown, len(spaces) > len(shown))


def fields(offer: Offer, language: Language, given: Mapping[str, str] | None = None) -> Html:
    """Return the form's fields. `given` is what was chosen before in a form that could not be followed."""
    parts: list[Part] = []
    if offer.of_spaces:
        parts.append(element("h2", told(Line.WHAT_MAY_IT_DO, language)))
        parts.append(paragraph(Line.NOTHING_YET, language))
        explained = (element("li", told(_ABOUT[scope], language)) for scope in offer.of_spaces)
        parts.append(element("ul", *explained, class_="soft"))
        parts.extend(_rows(offer, language, given))
        if offer.more:
            parts.append(paragraph(Line.MORE_SPACES, language, class_="soft", count=str(len(offer.spaces))))
    if Scope.SYNC in offer.scopes:
        box = checkbox(_SYNC, told(Line.SYNC_BOX, language), checked=_SYNC in (given or {}))
        parts.append(element("div", box, class_="row"))
    parts.append(_how_long(language, (given or {}).get(_DAYS, "")))
    return joined(parts)


def chosen(offer: Offer, form: Mapping[str, str]) -> Reach:
    """Return what a form allows: what is checked of what was offered. Raises ChoiceRefused."""
    spaces: dict[str, frozenset[Scope]] = {}
    for row, space in (*_numbered(offer), (_EVERY, ALL_SPACES)):
        spaces[space] = _checked(offer, form, row)
    further = _checked(offer, form, _OTHER)
    name = form.get(_OTHER_NAME, "").strip()
    if further and not name:
        raise ChoiceRefused(Line.SPACE_UNNAMED)
    if further:
        space = _space_name(name)
        spaces[space] = spaces.get(space, frozenset()) | further
    allowed = {space: scopes for space, scopes in spaces.items() if scopes}
    reach = Reach(allowed, sync=Scope.SYNC in offer.scopes and _SYNC in form)
    if reach.sync and not allowed:
        raise ChoiceRefused(Line.SYNC_ALONE)
    return reach


def expiry(form: Mapping[str, str], now_ms: int) -> int | None:
    """Return until when the form gives access, in ms; None = until it is revoked.

    Anything that wasn't offered is the shortest: a form of ours never sends it.
    """
    days = form.get(_DAYS, "")
    if not days:
        return None
    return now_ms + next((each for each in DAYS if str(each) == days), DAYS[0]) * MS_PER_DAY


def words(reach: Reach, language: Language) -> list[Html]:
    """Return a reach in words, a line a space."""
    lines: list[Html] = []
    for space, scopes in reach.spaces.items():
        name = told(Line.EVERY_SPACE, language) if space == ALL_SPACES else isolated(space)
        lines.append(told(Line.IN_SPACE, language, space=name, scopes=scope_words(scopes, language)))
    if reach.sync:
        lines.append(told(Line.SYNC, language))
    return lines


def scope_words(scopes: frozenset[Scope], language: Language) -> Html:
    """Return scopes as people call them, in one order."""
    listed = [told(WORDS[scope], language) for scope in CLIENT_SCOPES if scope in scopes]
    whole = listed[0] if listed else Html("")
    for each in listed[1:]:
        whole = told(Line.ALL_OF, language, first=whole, second=each)
    return whole


def _numbered(offer: Offer) -> Iterator[tuple[str, str]]:
    return ((str(number), space) for number, space in enumerate(offer.spaces))


def _checked(offer: Offer, form: Mapping[str, str], row: str) -> frozenset[Scope]:
    return frozenset(scope for scope in offer.of_spaces if f"{row}-{DEEDS[scope]}" in form)


def _space_name(text: str) -> str:
    try:
        name = clean(text, "space", SPACE_MAX_CHARS)
    except InvalidInput:
        name = ALL_SPACES
    if name == ALL_SPACES:
        raise ChoiceRefused(Line.BAD_SPACE, limit=str(SPACE_MAX_CHARS), star=element("code", ALL_SPACES))
    return name


def _rows(offer: Offer, language: Language, given: Mapping[str, str] | None) -> Iterator[Html]:
    for row, space in _numbered(offer):
        first = _CHECKED_AT_FIRST if space == DEFAULT_SPACE else frozenset[Scope]()
        yield _row(offer, language, row, isolated(space), first, given)
    named = joined(
        (
            element("label", told(Line.OTHER_SPACE, language), for_=_OTHER_NAME),
            element(
                "input",
                type="text",
                id=_OTHER_NAME,
                name=_OTHER_NAME,
                maxlength=str(SPACE_MAX_CHARS),
                autocomplete="off",
                value=(given or {}).get(_OTHER_NAME, ""),
            ),
        )
    )
    yield _row(offer, language, _OTHER, named, frozenset(), given)
    yield _row(offer, language, _EVERY, told(Line.EVERY_SPACE, language), frozenset(), given)


def _row(
    offer: Offer,
    language: Language,
    row: str,
    name: Part,
    first: frozenset[Scope],
    given: Mapping[str, str] | None,
) -> Html:
    label = f"space-{row}"
    boxes: list[Html] = []
    for scope in offer.of_spaces:
        field = f"{row}-{DEEDS[scope]}"
        checked = scope in first if given is None else field in given
        boxes.append(checkbox(field, told(WORDS[scope], language), checked=checked))
    return element("div", element("div", name, id=label), *boxes, class_="row", role="group", aria_labelledby=label)


def _how_long(language: Language, given: str) -> Html:
    def choice(value: str, line: Line) -> Html:
        dot = element("input", type="radio", name=_DAYS, value=value, checked=value == given)
        return element("label", dot, " ", told(line, language))

    return element(
        "fieldset",
        element("legend", told(Line.HOW_LONG, language)),
        element(
            "div",
            choice("", Line.UNTIL_REVOKED),
            *(choice(str(days), _DAYS_LINES[days]) for days in DAYS),
            class_="choices",
        ),
    )


def refusal(refused: ChoiceRefused, language: Language) -> Html:
    """Return why a form could not be followed."""
    return notice(refused.line, language, **refused.parts)
