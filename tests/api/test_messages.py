"""Lines for people, in their language."""

from string import Formatter

import pytest

from shoal.api.messages import Language, Line, language_of, say


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        (None, Language.ENGLISH),
        ("", Language.ENGLISH),
        ("de-AT,de;q=0.9", Language.ENGLISH),
        ("zh-CN,zh;q=0.9,en;q=0.8", Language.CHINESE),
        ("en-GB,zh;q=0.9", Language.ENGLISH),
        ("en;q=0.5,zh;q=0.9", Language.CHINESE),
        ("de,zh;q=0.3", Language.CHINESE),
        ("zh;q=0", Language.ENGLISH),
        ("zh;q=high", Language.ENGLISH),
        ("zh_CN.UTF-8", Language.CHINESE),
        ("C.UTF-8", Language.ENGLISH),
        ("*", Language.ENGLISH),
    ],
)
def test_the_first_language_that_we_speak_wins(wanted: str | None, language: Language) -> None:
    assert language_of(wanted) is language


def test_every_line_is_there_in_every_language_with_the_same_parts() -> None:
    parts = {"find": "F", "store": "S", "question": "a {b} question"}
    for line in Line:
        spoken = {say(line, language, **parts) for language in Language}
        assert len(spoken) == len(Language)
        assert all(not [p for p in Formatter().parse(text.replace("{b}", "")) if p[1]] for text in spoken)


def test_a_part_may_hold_braces() -> None:
    assert "a {b} question" in say(Line.RETRIEVAL, Language.ENGLISH, find="F", question="a {b} question")
