import re
from string import Formatter

import pytest
from tests.api.oauth.visits import Seen

from shoal.api.messages import Language
from shoal.api.oauth.pages import Html, element, escaped, isolated, page, plain, shown, told
from shoal.api.oauth.words import Line, said

CJK = re.compile("[\u4e00-\u9fff]")
MARKUP = "<script>alert('\"&\"')</script>"


def test_text_becomes_markup_nowhere():
    whole = element("p", MARKUP, title=MARKUP)
    page_ = Seen(whole.markup)
    assert page_.elements == [("p", {"title": MARKUP})]
    assert page_.text == MARKUP


def test_what_html_can_not_hold_is_replaced():
    text = escaped("a\x00b\ud800c\x1bd\x85e")
    assert text == "a\ufffdb\ufffdc\ufffdd\ufffde"
    text.encode()


def test_tabs_and_line_ends_stay_in_text():
    assert escaped("a\tb\nc") == "a\tb\nc"


def test_attributes_without_a_value_are_named_or_left_out():
    assert element("input", type="checkbox", checked=True, disabled=False, value=None).markup == (
        '<input type="checkbox" checked>'
    )


def test_names_of_attributes_are_written_as_html_has_them():
    assert element("label", for_="a", class_="b", aria_label="c").markup == (
        '<label for="a" class="b" aria-label="c"></label>'
    )


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff", "\n", "\u2028"])
def test_a_name_can_hide_or_turn_around_nothing(mark: str):
    assert shown(f"evil{mark}moc.knab") == "evil\ufffdmoc.knab"


def test_a_long_name_is_cut():
    assert shown("x" * 100) == "x" * 100
    assert shown("x" * 4096) == "x" * 100 + "…"


def test_a_name_stands_apart_from_the_text_around_it():
    assert isolated("<b>").markup == "<bdi>&lt;b&gt;</bdi>"


@pytest.mark.parametrize("line", Line)
def test_each_line_has_the_same_parts_in_both_languages(line: Line):
    parts = [sorted(name for _, name, _, _ in Formatter().parse(said(line, each)) if name) for each in Language]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("line", Line)
def test_each_line_is_in_its_language(line: Line):
    literals = {each: "".join(text for text, *_ in Formatter().parse(said(line, each))) for each in Language}
    assert not CJK.search(literals[Language.ENGLISH])
    # `main: read` has no word of its own.
    assert CJK.search(literals[Language.CHINESE]) or not re.search("[a-z]", literals[Language.ENGLISH])


def test_a_part_is_escaped_and_markup_of_ours_is_not():
    filled = told(Line.IN_SPACE, Language.ENGLISH, space=MARKUP, scopes=Html("<b>read</b>"))
    assert filled.markup == f"{escaped(MARKUP)}: <b>read</b>"


def test_braces_in_a_part_are_text():
    assert told(Line.WANTS_IN, Language.ENGLISH, name="{name} {0!r}").markup.startswith("{name} {0!r} asks")
    assert plain(Line.REVOKE_NAMED, Language.CHINESE, name="{x}") == "撤销 {x}"


@pytest.mark.parametrize(("language", "tag"), [(Language.ENGLISH, "en"), (Language.CHINESE, "zh-Hans")])
def test_a_page_is_whole_in_its_language(language: Language, tag: str):
    answer = page(language, Line.SIGN_IN, form_actions=("https://app.example",))
    whole = Seen(bytes(answer.body).decode())
    assert whole.open == []
    assert [tag for tag, _ in whole.elements].count("h1") == 1
    assert whole.of("html") == [{"lang": tag}]
    assert answer.headers["Content-Language"] == tag
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in whole.of("meta")
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' https://app.example;"
        " frame-ancestors 'none'; base-uri 'none'"
    )
