from dataclasses import replace

from shoal.core.protocols import Role
from shoal.local.embedding.descriptor import E5_SMALL_Q4, PRESETS, Pooling
from shoal.local.embedding.weights import WEIGHTS_SHA256


def test_the_default_fingerprint_changes_only_on_purpose():
    """A change here makes every installation embed everything again."""
    assert E5_SMALL_Q4.fingerprint(WEIGHTS_SHA256) == (
        "multilingual-e5-small@1571fc982750/q4_0/384/mean/l2/prefix-4f846030/centring-26185627"
    )


def test_whatever_changes_a_vector_changes_the_fingerprint():
    base = E5_SMALL_Q4.fingerprint("a")
    others = [
        E5_SMALL_Q4.fingerprint("b"),
        replace(E5_SMALL_Q4, name="x").fingerprint("a"),
        replace(E5_SMALL_Q4, quantisation="fp32").fingerprint("a"),
        replace(E5_SMALL_Q4, dim=256).fingerprint("a"),
        replace(E5_SMALL_Q4, pooling=Pooling.CLS).fingerprint("a"),
        replace(E5_SMALL_Q4, query_prefix="").fingerprint("a"),
        replace(E5_SMALL_Q4, passage_prefix="passage: ").fingerprint("a"),
        replace(E5_SMALL_Q4, centring=None).fingerprint("a"),
    ]
    assert len({base, *others}) == len(others) + 1


def test_swapping_the_two_prefixes_is_another_fingerprint():
    one = replace(E5_SMALL_Q4, query_prefix="a", passage_prefix="b")
    other = replace(E5_SMALL_Q4, query_prefix="b", passage_prefix="a")
    assert one.fingerprint("r") != other.fingerprint("r")


def test_calibration_is_no_part_of_the_fingerprint():
    assert replace(E5_SMALL_Q4, calibration=None).fingerprint("r") == E5_SMALL_Q4.fingerprint("r")


def test_each_role_has_its_prefix():
    gemma = PRESETS["embeddinggemma-300m"]
    assert gemma.prefix(Role.QUERY) == "task: search result | query: "
    assert gemma.prefix(Role.PASSAGE) == "title: none | text: "


def test_no_preset_claims_what_was_not_measured():
    assert {preset.calibration for preset in PRESETS.values()} == {None}
