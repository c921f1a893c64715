import re

from shoal.schema import errors
from shoal.schema.errors import ShoalError


def tree() -> list[tuple[int, type[ShoalError]]]:
    """Return (depth, class) of all errors of the module, each class before its own, in the order of definition."""

    def below(base: type[ShoalError], depth: int) -> list[tuple[int, type[ShoalError]]]:
        found = [(depth, base)]
        for child in base.__subclasses__():
            if child.__module__ == errors.__name__:
                found += below(child, depth + 1)
        return found

    return below(ShoalError, 0)


def test_the_tree_that_is_drawn_is_the_tree_that_is():
    drawn: list[tuple[int, str, str | None]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"((?:[│ ]   |[├└]── )*)([A-Z]\w+)(?: +(\d{3}))?", line)
        if match and (match[1] or match[2] == "ShoalError"):
            drawn.append((len(match[1]) // 4, match[2], match[3]))
    assert [(depth, name) for depth, name, _ in drawn] == [(depth, cls.__name__) for depth, cls in tree()]
    statuses = {name: int(status) for _, name, status in drawn if status}
    assert statuses == {cls.__name__: cls.status for depth, cls in tree() if depth == 1}


def test_a_branch_answers_with_one_http_status():
    for _, cls in tree()[1:]:
        for child in cls.__subclasses__():
            assert child.status == cls.status


def test_every_code_is_the_classs_own_name():
    codes = {cls: cls.code for depth, cls in tree() if depth}
    assert len(set(codes.values())) == len(codes)
    for cls, code in codes.items():
        assert code.replace("_", "") == cls.__name__.lower()


def test_an_error_says_what_happened_and_what_to_do():
    error = errors.OutOfRange("page is 0.", "Use 1 to 10.", field="page")
    assert str(error) == "page is 0. Use 1 to 10."
    assert error.as_dict() == {"code": "out_of_range", "message": "page is 0.", "mend": "Use 1 to 10.", "field": "page"}
