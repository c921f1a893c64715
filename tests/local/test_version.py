import pytest

from shoal.local import version


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0.1.0", "0.2.0", True),
        ("0.9.0", "0.10.0", True),
        ("1.0", "1.0.1", True),
        ("0.2.0", "0.2.0", False),
        ("0.3.0", "0.2.9", False),
        ("0.2.0rc1", "0.2.0", False),
        ("", "0.1.0", True),
    ],
)
def test_versions_compare_by_their_numbers(one: str, other: str, expected: bool) -> None:
    assert version.older(one, other) is expected


def test_the_installed_version_has_numbers() -> None:
    assert version.older("0.0.0", version.installed())
