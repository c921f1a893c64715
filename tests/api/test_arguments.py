"""Arguments become requests; errors name the field, the fault and what is allowed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.arguments import parse_json, validate, validate_query, validate_tool
from shoal.schema.errors import InvalidInput, MalformedBody
from shoal.schema.models import DeleteRequest, FindRequest, GetRequest, StoreRequest, TagChanges, UpdateRequest


def refused(model: type, arguments: dict[str, Any]) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        validate_tool(model, arguments)
    return caught.value


@pytest.mark.parametrize(("sent", "meant"), [("5", 5), (" 7 ", 7), (5.0, 5), (5, 5)])
def test_a_whole_number_in_another_form_is_understood_by_tools(sent: Any, meant: int) -> None:
    assert validate_tool(FindRequest, {"n_results": sent}).n_results == meant


@pytest.mark.parametrize("sent", ["5.5", 5.5, "five", "", "1e400", True, [5], "9" * 30])
def test_a_whole_number_that_would_lose_something_is_refused(sent: Any) -> None:
    error = refused(FindRequest, {"n_results": sent})
    assert error.details["field"] == "n_results"
    assert "must be a whole number" in error.message


def test_rest_bodies_are_taken_as_they_are() -> None:
    with pytest.raises(InvalidInput, match='`n_results` must be a whole number, not "5"'):
        validate(FindRequest, {"n_results": "5"})


def test_a_list_written_as_json_text_is_a_list() -> None:
    assert validate_tool(StoreRequest, {"content": "x", "tags": '["a", "b"]'}).tags == ["a", "b"]
    assert validate_tool(GetRequest, {"ids": '["a"]'}).ids == ["a"]
    assert validate_tool(StoreRequest, {"content": "x", "metadata": '{"a": 1}'}).metadata == {"a": 1}
    items = validate_tool(StoreRequest, {"items": '[{"content": "x", "position": "3", "tags": "[\\"a\\"]"}]'}).items
    assert items is not None
    assert items[0].position == 3
    assert items[0].tags == ["a"]
    assert validate_tool(UpdateRequest, {"id": "a", "tags": '{"add": ["x"]}'}).tags == TagChanges(add=["x"])


def test_text_that_only_looks_like_json_stays_text() -> None:
    assert validate_tool(StoreRequest, {"content": "[1, 2]", "tags": "[a], b"}).content == "[1, 2]"
    assert validate_tool(StoreRequest, {"content": "x", "tags": "[a], b"}).tags == "[a], b"
    assert validate_tool(FindRequest, {"query": "5"}).query == "5"
    assert validate_tool(StoreRequest, {"content": "x", "metadata": {"a": "5", "b": None}}).metadata == {
        "a": "5",
        "b": None,
    }


def test_null_means_not_given() -> None:
    request = validate_tool(FindRequest, {"query": "x", "n_results": None, "type": None})
    assert request.n_results == 5
    assert "n_results" not in request.model_fields_set


def test_null_for_a_required_argument_is_refused() -> None:
    assert "`id` must be a text" in refused(UpdateRequest, {"id": None}).message


def test_booleans_as_text_are_understood_and_others_refused() -> None:
    assert validate_tool(DeleteRequest, {"confirm": "True"}).confirm is True
    assert "must be true or false" in refused(DeleteRequest, {"confirm": "yes"}).message


def test_an_unknown_argument_is_refused_by_name_with_the_nearest() -> None:
    error = refused(FindRequest, {"nresults": 5})
    assert error.message == "`nresults` is not known here."
    assert error.mend.startswith("Did you mean `n_results`? The names are: type, ")


def test_an_unknown_argument_of_an_item_is_named_with_its_place() -> None:
    error = refused(StoreRequest, {"items": [{"contents": "x"}]})
    assert error.details["field"] in {"items.0.content", "items.0.contents"}
    assert "`items.0.content` is missing." in error.message
    assert "Did you mean `content`?" in error.mend


def test_of_several_alternatives_the_deepest_fault_is_told() -> None:
    assert refused(UpdateRequest, {"id": "a", "tags": {"ad": ["x"]}}).message == "`tags.ad` is not known here."
    assert refused(FindRequest, {"tags": 5}).message == "`tags` must be a list or a text, not 5."
    assert refused(FindRequest, {"tags": [1]}).message == "`tags.0` must be a text, not 1."


def test_allowed_values_are_named() -> None:
    assert "'any' or 'all'" in refused(FindRequest, {"tags_mode": "some"}).message
    assert "'episodic', 'semantic' or 'procedural'" in refused(FindRequest, {"kind": "x"}).message


def test_a_long_refused_value_is_cut_and_many_problems_are_counted() -> None:
    assert len(refused(FindRequest, {"n_results": "x" * 500}).message) < 150
    many = refused(FindRequest, {f"unknown_{n}": 1 for n in range(9)})
    assert "And 4 more." in many.message
    assert len(many.details["problems"]) == 5


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The request must be an object"):
        validate(FindRequest, [1])


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b'"\xff"', b'{"a": "\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse_json(body)


@pytest.mark.parametrize("model", [GetRequest, FindRequest, DeleteRequest])
def test_every_field_may_stand_in_a_query(model: type) -> None:
    assert validate_query(model, [("kind", "procedural")]).kind == "procedural"
    for name in model.model_fields:
        try:
            validate_query(model, [(name, "nonsense")])
        except InvalidInput as error:
            assert error.details["field"].partition(".")[0] == name


def test_a_query_is_text_and_a_repeated_name_is_a_list() -> None:
    request = validate_query(GetRequest, [("tags", "a"), ("tags", "b"), ("page", "2"), ("with_edges", "true")])
    assert (request.tags, request.page, request.with_edges) == (["a", "b"], 2, True)
    assert validate_query(GetRequest, [("ids", "a")]).ids == ["a"]
    with pytest.raises(InvalidInput, match="`pge` is not known here"):
        validate_query(GetRequest, [("pge", "2")])


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*StoreRequest.model_fields, "x"]), _json))
def test_any_arguments_make_a_request_or_a_named_fault(arguments: dict[str, Any]) -> None:
    try:
        validate_tool(StoreRequest, arguments)
    except InvalidInput as error:
        assert error.message
        assert error.details["field"]


@given(st.lists(st.text(alphabet=st.characters(blacklist_categories=["Cs"]))))
def test_a_valid_request_is_never_changed(ids: list[str]) -> None:
    assert validate_tool(GetRequest, {"ids": ids}).ids == ids
