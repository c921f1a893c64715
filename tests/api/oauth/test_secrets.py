import os

import pytest

from shoal.api.oauth.secrets import Secret, is_well_formed, make


@pytest.mark.parametrize("kind", Secret)
def test_a_secret_is_known_by_its_form(kind: Secret):
    made = make(kind, os.urandom)
    assert is_well_formed(made, kind) and is_well_formed(made, *Secret)
    assert not is_well_formed(made, *(other for other in Secret if other is not kind))
    assert len(made) == 51


@pytest.mark.parametrize(
    "spoil", [str.upper, lambda s: s[:-1], lambda s: s + "A", lambda s: s + "\n", lambda s: " " + s]
)
def test_anything_else_is_none(spoil):
    assert not is_well_formed(spoil(make(Secret.ACCESS, os.urandom)), *Secret)


def test_all_of_the_chance_is_in_the_text():
    assert make(Secret.CODE, lambda n: b"\0" * n) != make(Secret.CODE, lambda n: b"\0" * (n - 1) + b"\1")
    assert len({make(Secret.CODE, os.urandom) for _ in range(100)}) == 100
