import pytest

from shoal.api.oauth import escapes


@pytest.mark.parametrize("text", ["", "a", "%20", "%C3%a9", "%2520", "%00"])
def test_text_without_a_stray_percent_sign_is_whole(text: str):
    assert escapes.are_whole(text)


@pytest.mark.parametrize("text", ["%", "a%", "%2", "%zz", "%2g", "%%20", "%20%", "%-1", "%\uff12\uff10"])
def test_a_percent_sign_that_begins_no_escape_is_found(text: str):
    assert not escapes.are_whole(text)
