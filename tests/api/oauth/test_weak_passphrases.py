import pytest

from shoal.api.oauth.weak_passphrases import is_weak


@pytest.mark.parametrize(
    "passphrase",
    [
        "passwordpassword", "Password1234567", "ShoalPassword2026!", "P@ssw0rdP@ssw0rd", "password!@#$%^&*()",
        "my shoal passphrase", "WelcomeToShoal2026", "letmein letmein letmein", "owner owner owner owner!",
        "correct horse battery staple", "CorrectHorseBatteryStaple123", "the quick brown fox jumps",
        "To be, or not to be: that is the question", "may the force be with you",
    ],
)  # fmt: skip
def test_what_everyone_takes_in_english_is_weak(passphrase: str):
    assert is_weak(passphrase)


@pytest.mark.parametrize(
    "passphrase",
    [
        "woaini1314520woaini", "wo de mi ma 123456", "chuang qian ming yue guang", "haohaoxuexi tiantianxiangshang",
        "床前明月光疑是地上霜举头望明月", "好好学习，天天向上！好好学习", "我的密码我的密码我的密码我的密码",
    ],
)  # fmt: skip
def test_what_everyone_takes_in_chinese_is_weak(passphrase: str):
    assert is_weak(passphrase)


@pytest.mark.parametrize(
    "passphrase",
    [
        "aaaaaaaaaaaaaaaa", "abcabcabcabcabcabc", "xkqzpxkqzpxkqzpxk", "12345678901234", "98765432109876",
        "abcdefghijklmnop", "qwertyuiopasdfgh", "lkjhgfdsapoiuytr", "1qaz2wsx3edc4rfv", "zxcvbnmasdfghjkl",
        "83920174658392", "2026-11-30 2026-12-01", "..............", "一二三四五六七八九十一二三四五",
    ],
)  # fmt: skip
def test_repeats_runs_and_bare_numbers_are_weak(passphrase: str):
    assert is_weak(passphrase)


@pytest.mark.parametrize(
    "passphrase",
    [
        "lantern orchid mossy anvil", "my dog eats blue cheese", "mythical island overseas", "tidal.rhubarb.98",
        "x7#kP9-22-q4Tz81mW", "K7$!x@9#2%&0zq*", "紫色的河马在图书馆跳探戈舞蹈队", "zise hema tiao tange wu",
        "shoal of seventeen grumpy herrings",
    ],
)  # fmt: skip
def test_others_are_not(passphrase: str):
    assert not is_weak(passphrase)


@pytest.mark.parametrize(
    "passphrase", ["", " ", "\0", "\udce9" * 20, "a" * 256, "(((([[[[\\\\\\\\????****++++", "ß" * 99]
)
def test_any_text_can_be_judged(passphrase: str):
    assert is_weak(passphrase) in (True, False)
