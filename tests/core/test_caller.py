import pytest

from shoal.core.caller import DEFAULT_SPACE, Caller, Scope
from shoal.schema.errors import InvalidInput, NotAllowed

ANY, TWO, NONE = Caller(), Caller(spaces=("a", "b")), Caller(spaces=())


def test_without_a_name_the_callers_first_space_is_meant():
    assert (ANY.space(None), TWO.space(None)) == (DEFAULT_SPACE, "a")
    with pytest.raises(NotAllowed):
        NONE.space(None)


def test_a_space_that_is_not_the_callers_is_refused():
    assert (ANY.space("z"), TWO.space("b")) == ("z", "b")
    for wanted in ("z", "A", "a ", "main"):
        with pytest.raises(NotAllowed):
            TWO.space(wanted)


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
