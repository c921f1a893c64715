import pytest

from shoal.core.caller import DEFAULT_SPACE, Caller, Scope
from shoal.schema.errors import InvalidInput, InvalidTime, NotAllowed
from shoal.schema.limits import SPACE_MAX_CHARS

ANY, TWO, NONE = Caller(), Caller(spaces=("a", "b")), Caller(spaces=())


def test_without_a_name_the_callers_first_space_is_meant():
    assert (ANY.space(None), TWO.space(None)) == (DEFAULT_SPACE, "a")
    with pytest.raises(NotAllowed):
        NONE.space(None)


def test_a_space_that_is_not_the_callers_is_refused():
    assert (ANY.space("z"), TWO.space("b")) == ("z", "b")
    for wanted in ("z", "A", "a b", "main"):
        with pytest.raises(NotAllowed):
            TWO.space(wanted)


def test_a_space_is_spelled_alike_for_writing_and_reading():
    for caller in (ANY, TWO):
        assert (caller.space(" a\n"), caller.readable([" a", "a"]), caller.readable_by_id(" a ")) == (
            "a",
            ("a",),
            ("a",),
        )
    assert ANY.space("cafe\u0301") == "caf\u00e9"


def test_a_space_that_cannot_be_stored_is_refused_for_reading_too():
    for wanted in (" ", "a" * (SPACE_MAX_CHARS + 1), "a\x00b"):
        for asked in (ANY.space, ANY.readable, ANY.readable_by_id):
            with pytest.raises(InvalidInput):
                asked(wanted)
    assert ANY.space("a" * SPACE_MAX_CHARS)


def test_by_id_all_the_callers_spaces_are_meant():
    assert (ANY.readable_by_id(None), TWO.readable_by_id(None)) == (None, ("a", "b"))


def test_a_time_zone_is_checked_even_where_no_time_is_named():
    assert (ANY.zone(None), ANY.zone(""), ANY.zone("Asia/Tokyo")) == ("UTC", "UTC", "Asia/Tokyo")
    with pytest.raises(InvalidTime):
        ANY.zone("Mars/Olympus")


@pytest.mark.parametrize("wanted", ["", "*"])
def test_no_single_space_can_be_empty_or_all(wanted):
    with pytest.raises(InvalidInput):
        ANY.space(wanted)


def test_readable_spaces_are_one_several_or_all_the_callers():
    assert ANY.readable("*") is None
    assert ANY.readable(["*"]) is None
    assert (ANY.readable(None), ANY.readable(["x", "y", "x"])) == ((DEFAULT_SPACE,), ("x", "y"))
    assert (TWO.readable("*"), TWO.readable(None), TWO.readable(["b", "a"])) == (("a", "b"), ("a",), ("b", "a"))
    assert NONE.readable("*") == ()
    with pytest.raises(NotAllowed):
        TWO.readable(["a", "z"])
    for wanted in ([], "", ["a", "*"], ["a", ""]):
        with pytest.raises(InvalidInput):
            TWO.readable(wanted)


def test_a_scope_must_be_held():
    reader = Caller(scopes=frozenset({Scope.READ}))
    reader.require(Scope.READ)
    for scope in (Scope.WRITE, Scope.ADMIN):
        with pytest.raises(NotAllowed) as raised:
            reader.require(scope)
        assert raised.value.details == {"scope": str(scope)}
