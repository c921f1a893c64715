"""What every page shares: the frame, the headers, and the one way in which text becomes markup.

Pages are plain HTML without script. They are put together from `element`s, whose text and attributes go through
`escaped` unless they are `Html` already; so text from outside can't become markup by being forgotten.
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.responses import Response

from shoal.api.messages import Language, language_of
from shoal.api.oauth.records import NAME_MAX_CHARS
from shoal.api.oauth.style import STYLE
from shoal.api.oauth.words import Line, said

_VOID: Final = frozenset({"input", "meta"})
# What HTML can't hold (controls, halves of surrogate pairs, which UTF-8 can't write either).
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# What would change how a name reads: line ends, and marks without width or that turn the direction of writing.
_DECEPTIVE: Final = re.compile("[\t\n\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_REPLACEMENT: Final = "\ufffd"
_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that this package has made."""

    markup: str


Part: TypeAlias = Html | str
"""What an element may hold: markup of ours, or any text."""


def escaped(text: str) -> str:
    """Return any text as HTML that shows it, within an element or between the quotes of an attribute."""
    return html.escape(_UNWRITABLE.sub(_REPLACEMENT, text), quote=True)


def element(tag: str, *parts: Part, **attributes: str | bool | None) -> Html:
    """Return an element. `class_` is `class`, `aria_label` is `aria-label`; False and None leave an attribute out."""
    opening = [tag]
    for name, value in attributes.items():
        written = name.rstrip("_").replace("_", "-")
        if isinstance(value, str):
            opening.append(f'{written}="{escaped(value)}"')
        elif value:
            opening.append(written)
    start = f"<{' '.join(opening)}>"
    return Html(start if tag in _VOID else f"{start}{joined(parts).markup}</{tag}>")


def joined(parts: Iterable[Part]) -> Html:
    """Return several parts as one."""
    return Html("".join(part.markup if isinstance(part, Html) else escaped(part) for part in parts))


def told(line: Line, language: Language, **parts: Part) -> Html:
    """Return a line with its parts filled in, each of them escaped unless it is markup already."""
    pieces: list[Part] = []
    for literal, name, _, _ in Formatter().parse(said(line, language)):
        pieces.append(literal)
        if name is not None:
            pieces.append(parts[name])
    return joined(pieces)


def plain(line: Line, language: Language, **parts: str) -> str:
    """Return a line as text, for attributes, which escape it."""
    return said(line, language).format(**parts)


def shown(text: str, max_chars: int = NAME_MAX_CHARS) -> str:
    """Return a text from outside as a short line that reads as it is written: nothing turned around, nothing hidden."""
    line = _DECEPTIVE.sub(_REPLACEMENT, text[: max_chars + 1])
    return line if len(text) <= max_chars else line[:max_chars] + _ELLIPSIS


def isolated(text: str, max_chars: int = NAME_MAX_CHARS) -> Html:
    """Return a name from outside so that its direction of writing can't spill over into ours."""
    return element("bdi", shown(text, max_chars))


def paragraph(line: Line, language: Language, *, class_: str | None = None, **parts: Part) -> Html:
    """Return a line as a paragraph."""
    return element("p", told(line, language, **parts), class_=class_)


def notice(line: Line, language: Language, **parts: Part) -> Html:
    """Return a line that must not be overlooked, and that screen readers say first."""
    return element("p", told(line, language, **parts), class_="notice", role="alert")


def hidden(name: str, value: str) -> Html:
    """Return a field that goes with a form unseen."""
    return element("input", type="hidden", name=name, value=value)


def checkbox(name: str, label: Part, *, checked: bool = False) -> Html:
    """Return a box with its label."""
    box = element("input", type="checkbox", name=name, value="1", checked=checked)
    return element("label", box, " ", label)


def button(line: Line, language: Language, *, name: str | None = None, value: str | None = None, class_: str) -> Html:
    """Return a button that sends its form."""
    return element("button", told(line, language), type="submit", name=name, value=value, class_=class_)


def form(action: str, *parts: Part, class_: str | None = None) -> Html:
    """Return a form that is sent to a path of ours."""
    return element("form", *parts, method="post", action=action, class_=class_)


def language_for(headers: Headers) -> Language:
    """Return the language in which the person wants to read."""
    return language_of(headers.get("accept-language"))


def page(
    language: Language,
    title: Line,
    *body: Part,
    status: int = 200,
    form_actions: Sequence[str] = (),
    head: Part = "",
    retry_after_s: int | None = None,
) -> Response:
    """Return a whole page. `form_actions` are the sources, besides this server, to which its forms may lead on."""
    whole = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="robots", content="noindex"),
            head,
            element("title", told(title, language), " · shoal"),
            element("style", Html(STYLE)),
        ),
        element(
            "body",
            element("header", element("span", "shoal", class_="brand", lang="en"), class_="bar"),
            element("main", element("h1", told(title, language)), *body),
        ),
        lang=_TAGS[language],
    )
    headers = {
        "Content-Security-Policy": _policy(form_actions),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        # Not no-referrer: with that, browsers send `Origin: null` with forms.
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Content-Language": _TAGS[language],
        "Vary": "Accept-Language, Cookie",
    }
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    return Response("<!doctype html>\n" + whole.markup, status, headers, "text/html")


def problem(language: Language, title: Line, mend: Line, *, status: int = 400, link: Html | None = None) -> Response:
    """Return the page of something that went wrong: what, and what to do about it."""
    return page(language, title, paragraph(mend, language), link or "", status=status)


_TAGS: Final = {Language.ENGLISH: "en", Language.CHINESE: "zh-Hans"}


def _policy(form_actions: Sequence[str]) -> str:
    forms = " ".join(dict.fromkeys(("'self'", *form_actions)))
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; form-action {forms}; frame-ancestors 'none'; base-uri 'none'"
    )
