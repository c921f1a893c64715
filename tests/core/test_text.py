import unicodedata
from collections.abc import Iterator

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.characters import lower_in_place
from shoal.core.text import MATCH_TERMS_MAX, clean, match_terms, normalise, occurrence, prepare, terms
from shoal.schema.errors import ContentTooLong, EmptyContent, InvalidTag, InvalidText
from shoal.schema.limits import CONTENT_MAX_BYTES

SIGNS = "的部署计划了搜索𠀀中文かなカナ한국"
"""Characters from which Hypothesis builds CJK text."""

MIXED = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs",)),
        st.sampled_from(SIGNS + "aBc1_.-+#:@'\"*^() \u200b\u0301\ufe0f"),
    ),
    max_size=40,
)


class Index:
    """One contentless FTS5 table, as both ends have it."""

    def __init__(self) -> None:
        self._db = apsw.Connection(":memory:")
        self._db.execute(
            "create virtual table f using fts5(content, content='', contentless_delete=1, tokenize='porter unicode61')"
        )

    def replace(self, *contents: str) -> None:
        self._db.execute("delete from f")
        for rowid, content in enumerate(contents):
            self._db.execute("insert into f(rowid, content) values (?, ?)", (rowid, prepare(content)))

    def find(self, query: str) -> list[int]:
        """Rows that match, best first."""
        match = " OR ".join(match_terms(query))
        if not match:
            return []
        return [row for (row,) in self._db.execute("select rowid from f where f match ? order by rank", (match,))]


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    yield Index()


def found(index: Index, content: str, query: str) -> bool:
    index.replace(content)
    return index.find(query) == [0]


# normalise and clean


def test_content_is_stored_composed_and_trimmed():
    assert normalise("\ufeff\n  Cafe\u0301\u3000\u200b") == "Café"


@pytest.mark.parametrize("content", ["", " \n\t", "\u200b\ufeff", "\u3000"])
def test_content_without_a_visible_character_is_empty(content: str):
    with pytest.raises(EmptyContent):
        normalise(content)


@pytest.mark.parametrize("content", ["a\x00b", "a\ud800b", "\udfff"])
def test_content_that_utf8_cannot_hold_is_refused(content: str):
    with pytest.raises(InvalidText):
        normalise(content)


def test_the_limit_of_content_counts_bytes_not_characters():
    assert normalise("x" * CONTENT_MAX_BYTES)
    assert normalise("字" * (CONTENT_MAX_BYTES // 3))
    with pytest.raises(ContentTooLong) as caught:
        normalise("字" * (CONTENT_MAX_BYTES // 3 + 1))
    assert caught.value.details == {"bytes": CONTENT_MAX_BYTES + 2, "limit": CONTENT_MAX_BYTES}


@given(MIXED)
def test_normalising_twice_changes_nothing(content: str):
    try:
        once = normalise(content)
    except (EmptyContent, InvalidText):
        return
    assert normalise(once) == once


def test_a_short_field_becomes_one_line():
    assert clean("  release\n\tnotes ", "tag", 20) == "release notes"


@pytest.mark.parametrize(
    ("tag", "error"), [(" ", InvalidTag), ("x" * 9, InvalidTag), ("a\x07", InvalidText), ("\ud83d", InvalidText)]
)
def test_a_bad_short_field_names_its_error(tag: str, error: type[Exception]):
    with pytest.raises(error):
        clean(tag, "tag", 8, InvalidTag)


# prepare


def test_cjk_runs_become_unigrams_and_bigrams_in_reading_order():
    assert prepare("中文字").split() == ["中", "中文", "文", "文字", "字"]


def test_a_latin_word_inside_chinese_stands_alone():
    assert prepare("用Python写").split() == ["用", "Python", "写"]


def test_ascii_prose_is_kept_as_it_is():
    text = "Plain words, e.g. these - stay (as they are)."
    assert prepare(text) == text


@given(MIXED)
def test_composed_and_decomposed_spellings_are_prepared_alike(text: str):
    assert prepare(unicodedata.normalize("NFC", text)) == prepare(unicodedata.normalize("NFD", text))


def test_a_long_word_costs_linear_time():
    prepare("aB" * 120_000)
    match_terms("a" * 250_000)
    match_terms("a." * 120_000)


# agreement of index and query


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("我们把部署改到周五", "部署"),
        ("我们把部署改到周五", "周"),
        ("ハードディスクとサーバー", "サーバー"),
        ("서울에서 만났다", "서울"),
        ("𠀀𠀁是生僻字", "𠀀𠀁"),
        ("see foo_bar.py", "foo_bar.py"),
        ("see foo_bar.py", "bar"),
        ("call parseConfig now", "config"),
        ("call parseConfig now", "PARSECONFIG"),
        ("an HTTPServer died", "server"),
        ("written in C++", "cpp"),
        ("written in cpp", "C++"),
        ("runs on .NET", "dotnet"),
        ("ｆｕｌｌｗｉｄｔｈ１２", "fullwidth12"),
        ("tiếng Việt", "tieng viet"),
        ("Straße am Fluß", "strasse"),
        ("Đà Nẵng", "da nang"),
        ("hid\u200bden\u00ad word", "hidden"),
        ("葛\U000e0100城市", "葛城"),
        ("they deployed it", "deployment deploys deploying"),
        ("🎉 shipped", "shipped 🎉"),
        ("don’t panic", "don't"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("the", "the"),
        ("我们的", "我们"),
    ],
)
def test_a_content_is_found_by_the_query(index: Index, content: str, query: str):
    assert found(index, content, query)


def test_a_two_character_chinese_word_does_not_match_its_characters_apart(index: Index):
    assert not found(index, "部门的公署", "部署")


def test_an_exact_name_ranks_before_its_parts(index: Index):
    index.replace("foo and bar are py words, bar foo py", "open foo_bar.py", "bar of foo in py, foo")
    assert index.find("foo_bar.py")[0] == 1


@given(MIXED, st.data())
def test_a_content_is_found_by_each_of_its_words(index: Index, content: str, data: st.DataObject):
    words = prepare(content).split()
    if not words:
        return
    word = data.draw(st.sampled_from(words))
    if match_terms(word) and any(map(str.isalnum, word)):
        assert found(index, content, word)


@given(st.text(st.sampled_from(SIGNS), min_size=1, max_size=20), st.data())
def test_a_content_is_found_by_each_of_its_pieces_of_one_or_two_signs(index: Index, content: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(content) - 1))
    assert found(index, content, content[start : start + data.draw(st.integers(1, 2))])


@given(st.text(max_size=60))
def test_no_text_is_a_syntax_error(index: Index, text: str):
    index.find(text)


@pytest.mark.parametrize(
    "text",
    ['"', "a AND", "NOT b", "NEAR(a b, 3)", "col : x", "(a", "a*", "^a", "-a", "{a b} : c", "a\x00b", "a + b", "'"],
)
def test_query_syntax_is_plain_text(index: Index, text: str):
    index.replace("a b c x")
    index.find(text)
    assert all(term[0] == term[-1] == '"' and '"' not in term[1:-1] for term in match_terms(text))


# match_terms and terms


@pytest.mark.parametrize("text", ["", "  ", "?!", "🎉", "\u0301", "\x00", "\ud800", "--"])
def test_a_text_without_words_gives_no_query(text: str):
    assert match_terms(text) == ()
    assert terms(text) == ()


def test_function_words_are_dropped_while_others_remain():
    assert terms("When did we move the deployment?") == ("move", "deployment")
    assert terms("我们的部署是什么") == ("的部", "部署", "署是", "是什")


def test_function_words_stay_when_nothing_else_does():
    assert terms("Who are you") == ("who", "are", "you")
    assert terms("什么") == ("什么",)


def test_terms_are_distinct_and_bounded_and_keep_the_telling_ones():
    words = [f"w{number}" for number in range(200)]
    assert terms("deploy Deploy DEPLOY") == ("deploy",)
    kept = terms(" ".join([*words, "extraordinarily"]))
    assert len(kept) == MATCH_TERMS_MAX
    assert "extraordinarily" in kept
    assert len(match_terms(" ".join(words))) == MATCH_TERMS_MAX


@pytest.mark.parametrize(
    ("term", "text", "stands"),
    [
        ("plan", "planning", True),
        ("run", "runs", True),
        ("plan", "planet", False),
        ("art", "party", False),
        ("car", "care", False),
        ("care", "cared", True),
        ("moving", "we moved", True),
        ("studies", "study", True),
        ("python", "用Python写的", True),
        ("viet", "Việt", True),
        ("部署", "我们部署了", True),
        ("计费", "计划", False),
    ],
)
def test_a_term_stands_where_its_word_does_with_any_ending_but_not_in_other_words(term: str, text: str, stands: bool):
    assert (occurrence(term, lower_in_place(text)) >= 0) == stands


def test_a_term_is_looked_for_from_a_place_on():
    assert [occurrence("plan", "planning a plan", start) for start in (0, 1, 12)] == [0, 11, -1]
