import pytest

from shoal.core.caller import DEFAULT_SPACE, Caller, Scope
from shoal.schema.errors import InsufficientScope, InvalidInput, InvalidTime, NotAllowed
from shoal.schema.limits import SPACE_MAX_CHARS

ANY, TWO, NONE = Caller(), Caller(spaces=("a", "b")), Caller(spaces=())
MIXED = Caller(
    scopes=frozenset({Scope.READ, Scope.WRITE, Scope.ADMIN}),
    spaces=("a", "b", "c"),
    narrower=((Scope.WRITE, ("b", "c")), (Scope.ADMIN, ("c",))),
)
APART = Caller(spaces=("a", "b"), narrower=((Scope.READ, ("a",)), (Scope.WRITE, ("b",)), (Scope.ADMIN, ())))
ONE_TO_WRITE = Caller(narrower=((Scope.WRITE, ("a",)),))


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
        assert (caller.space(" a\n"), caller.within([" a", "a"]), caller.within_by_id(" a ")) == (
            "a",
            ("a",),
            ("a",),
        )
    assert ANY.space("cafe\u0301") == "caf\u00e9"


def test_a_space_that_cannot_be_stored_is_refused_for_reading_too():
    for wanted in (" ", "a" * (SPACE_MAX_CHARS + 1), "a\x00b"):
        for asked in (ANY.space, ANY.within, ANY.within_by_id):
            with pytest.raises(InvalidInput):
                asked(wanted)
    assert ANY.space("a" * SPACE_MAX_CHARS)


def test_by_id_all_the_callers_spaces_are_meant():
    assert (ANY.within_by_id(None), TWO.within_by_id(None)) == (None, ("a", "b"))


def test_a_time_zone_is_checked_even_where_no_time_is_named():
    assert (ANY.zone(None), ANY.zone(""), ANY.zone("Asia/Tokyo")) == ("UTC", "UTC", "Asia/Tokyo")
    with pytest.raises(InvalidTime):
        ANY.zone("Mars/Olympus")


@pytest.mark.parametrize("wanted", ["", "*"])
def test_no_single_space_can_be_empty_or_all(wanted):
    with pytest.raises(InvalidInput):
        ANY.space(wanted)


def test_the_spaces_to_look_in_are_one_several_or_all_the_callers():
    assert ANY.within("*") is None
    assert ANY.within(["*"]) is None
    assert (ANY.within(None), ANY.within(["x", "y", "x"])) == ((DEFAULT_SPACE,), ("x", "y"))
    assert (TWO.within("*"), TWO.within(None), TWO.within(["b", "a"])) == (("a", "b"), ("a",), ("b", "a"))
    assert NONE.within("*") == ()
    with pytest.raises(NotAllowed):
        TWO.within(["a", "z"])
    for wanted in ([], "", ["a", "*"], ["a", ""]):
        with pytest.raises(InvalidInput):
            TWO.within(wanted)


def test_a_scope_must_be_held_and_the_error_names_all_that_must_be_asked_for():
    reader = Caller(scopes=frozenset({Scope.SYNC, Scope.READ}))
    reader.require(Scope.READ)
    reader.require()
    for needs, missing, scopes in (
        ((Scope.WRITE,), "the scope memory:write.", ["memory:read", "memory:write", "sync"]),
        ((Scope.ADMIN, Scope.READ), "the scope memory:admin.", ["memory:read", "memory:admin", "sync"]),
        (
            (Scope.ADMIN, Scope.WRITE),
            "the scopes memory:write and memory:admin.",
            ["memory:read", "memory:write", "memory:admin", "sync"],
        ),
    ):
        for refused in (
            lambda needs=needs: reader.require(*needs),
            lambda needs=needs: reader.space(None, *needs),
            lambda needs=needs: reader.within("*", *needs),
            lambda needs=needs: reader.within_by_id(None, *needs),
        ):
            with pytest.raises(InsufficientScope, match=missing) as raised:
                refused()
            assert raised.value.details == {"scopes": scopes}
            assert (raised.value.code, raised.value.status) == ("insufficient_scope", 403)


def test_a_scope_reaches_its_own_spaces():
    assert [ANY.reach(scope) for scope in (Scope.READ, Scope.SYNC)] == [None, None]
    assert [MIXED.reach(scope) for scope in Scope] == [("a", "b", "c"), ("b", "c"), ("c",), ()]
    assert Caller(scopes=frozenset()).reach(Scope.READ) == ()
    assert ONE_TO_WRITE.reach(Scope.READ) is None
    assert MIXED.reaches("a", Scope.READ)
    assert not MIXED.reaches("a", Scope.WRITE)


def test_where_several_scopes_are_needed_only_what_all_of_them_reach_counts():
    both = (Scope.READ, Scope.WRITE)
    assert MIXED.within("*", *both) == MIXED.within_by_id(None, *both) == ("b", "c")
    assert MIXED.within("*", *both, Scope.ADMIN) == ("c",)
    assert ONE_TO_WRITE.within("*", *both) == ("a",)
    assert APART.within("*", *both) == ()
    for refused in (("a", Scope.WRITE), ("c", Scope.ADMIN, Scope.SYNC), (None, Scope.SYNC)):
        with pytest.raises(NotAllowed):
            MIXED.within(*refused)
    with pytest.raises(NotAllowed):
        APART.within(None, *both)


def test_the_space_meant_without_a_name_is_one_that_the_deed_is_allowed_in():
    assert MIXED.space(None, Scope.READ) == "a"
    assert MIXED.space(None, Scope.WRITE) == "b"
    assert MIXED.space(None, Scope.READ, Scope.WRITE, Scope.ADMIN) == "c"
    assert ONE_TO_WRITE.space(None, Scope.READ) == DEFAULT_SPACE
    assert ONE_TO_WRITE.space(None, Scope.WRITE) == "a"


def test_without_a_need_no_more_than_the_callers_spaces_is_meant():
    assert (TWO.within("*"), MIXED.space(None)) == (("a", "b"), "a")


@pytest.mark.parametrize(
    ("caller", "space", "needs", "deed"),
    [
        ("MIXED", "a", (Scope.WRITE,), "write"),
        ("MIXED", "a", (Scope.READ, Scope.WRITE, Scope.ADMIN), "write and administer"),
        ("MIXED", "b", (Scope.READ, Scope.WRITE, Scope.ADMIN), "administer"),
        ("APART", "b", (Scope.READ,), "read"),
        ("ONE_TO_WRITE", "z", (Scope.WRITE,), "write"),
        ("MIXED", "z", (Scope.WRITE,), "reach"),
        ("MIXED", "main", (Scope.READ,), "reach"),
    ],
)
def test_which_deed_is_refused_is_told_only_of_a_space_that_another_scope_reaches(caller, space, needs, deed):
    asked: Caller = globals()[caller]
    for refused in (asked.space, asked.within, asked.within_by_id):
        with pytest.raises(NotAllowed, match=f"^The space '{space}' is not yours to {deed}\\.") as raised:
            refused(space, *needs)
        assert raised.value.code == "not_allowed"


def test_a_caller_is_a_key():
    assert len({MIXED, APART, ONE_TO_WRITE, Caller(scopes=frozenset(Scope)), ANY}) == 4
