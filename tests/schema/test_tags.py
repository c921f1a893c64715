import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.schema.errors import InvalidTag, TooMany
from shoal.schema.limits import TAG_MAX_CHARS, TAGS_MAX
from shoal.schema.tags import NAMESPACES, Tag, parse, parse_all


def test_the_namespaces_are_those_of_the_contract():
    assert list(NAMESPACES) == "sys q proj topic t user agent source conflict confidence status".split()


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_tag_of_a_namespace_is_parsed_into_both_parts(namespace):
    assert parse(f" {namespace.upper()}: value ") == Tag(namespace, "value")
    assert str(parse(f"{namespace}:a:b")) == f"{namespace}:a:b"


@pytest.mark.parametrize("text", ["C++", "C#", ".NET", "http://x.org/a?b=c", "12:30", "标签", "a b", "#42", "other:x"])
def test_a_free_tag_is_kept_as_written(text):
    assert parse(text) == Tag(None, text)
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "  ", "proj:", "proj: ", "a\x00", "a\nb", "a\x7f", "\ud800", "x" * (TAG_MAX_CHARS + 1)]
)
def test_what_is_no_tag_is_refused(text):
    with pytest.raises(InvalidTag):
        parse(text)


def test_the_wildcard_of_filters_is_no_tag_to_store():
    for text in ("proj:*", "Proj: *", "other:*"):
        with pytest.raises(InvalidTag):
            parse(text)
    assert parse("Proj: *", wildcard=True) == Tag("proj", "*")
    assert parse("a*") == Tag(None, "a*")


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (None, ()),
        ("", ()),
        (" , ,", ()),
        ("a, b ,a", ("a", "b")),
        ("偏好，深色模式,ui", ("偏好", "深色模式", "ui")),
        (["a, b", "c"], ("a, b", "c")),
        (["Proj:x", "proj:x"], ("proj:x",)),
        (["e\u0301", "\u00e9"], ("\u00e9",)),
    ],
)
def test_lists_and_comma_strings_become_distinct_tags_in_order(given, parsed):
    assert parse_all(given) == parsed


def test_an_empty_tag_in_a_list_is_refused_though_a_comma_string_may_have_gaps():
    with pytest.raises(InvalidTag):
        parse_all(["a", ""])


def test_the_limits_are_named_in_the_errors():
    assert parse("x" * TAG_MAX_CHARS)
    with pytest.raises(InvalidTag, match=str(TAG_MAX_CHARS)):
        parse("x" * (TAG_MAX_CHARS + 1))
    assert len(parse_all([f"t{n}" for n in range(TAGS_MAX)] * 2)) == TAGS_MAX
    with pytest.raises(TooMany, match=str(TAGS_MAX)):
        parse_all([f"t{n}" for n in range(TAGS_MAX + 1)])


@given(text=st.text(max_size=20))
def test_parsing_is_idempotent(text):
    try:
        tag = parse(text)
    except InvalidTag:
        return
    assert parse(str(tag)) == tag
