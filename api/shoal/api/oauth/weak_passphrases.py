"""Passphrases that guessing programs try first.

The list is short and holds what is long enough to pass for a passphrase: words that everyone takes, known phrases in
English, pinyin and Chinese, keyboard and counting runs, and anything said over and over. What is left of a passphrase
without these must still be worth guessing. It can't know what is guessable about one person (names, dates, a line of a
favourite song), nor what has leaked elsewhere: a list that did would be far larger than the Worker.
"""

import re
from functools import cache
from typing import Final

REST_MIN_CHARS: Final = 6
"""What must be left when everything common has been taken away: letters, digits between them, different symbols."""
_RUN_MIN_CHARS: Final = 4
_DISTINCT_MIN: Final = 6
"""Different characters that a passphrase must have at least."""

_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "q1w2e3r4t5y6u7i8o9p0", "1q2w3e4r5t6y7u8i9o0p",
    "qazwsxedcrfvtgbyhnujmikolp", "一二三四五六七八九十",
)  # fmt: skip
"""Ways along a keyboard and of counting, taken forwards and backwards."""
_PHRASES: Final = (
    "correcthorsebatterystaple", "thequickbrownfoxjumpsoverthelazydog", "thequickbrownfox", "jumpsoverthelazydog",
    "tobeornottobethatisthequestion", "tobeornottobe", "maytheforcebewithyou", "itwasadarkandstormynight",
    "twinkletwinklelittlestar", "maryhadalittlelamb", "loremipsumdolorsitamet", "helloworld", "opensesame",
    "winteriscoming", "ihaveadream", "inthebeginning", "callmeishmael", "ithinkthereforeiam", "allyouneedislove",
    "letitbe", "neveragain", "thisismypassword", "thisismypassphrase", "youshallnotpass", "livelongandprosper",
    "knowledgeispower", "nevergonnagiveyouup", "iamyourfather", "onceuponatime", "happybirthday", "merrychristmas",
    "chuangqianmingyueguang", "yishidishangshuang", "chuangqianmingyueguangyishidishangshuang", "woaibeijingtiananmen",
    "shengrikuaile", "xinniankuaile", "gongxifacai", "tiantianxiangshang", "haohaoxuexi", "wodemima", "mimashimima",
    "woaizhongguo", "woailaopo", "woaimama", "woaibaba", "zhendewoaini", "yishengyishi", "wanshiruyi", "nihaoshijie",
    "床前明月光", "疑是地上霜", "举头望明月", "低头思故乡", "好好学习", "天天向上", "生日快乐", "新年快乐", "恭喜发财",
    "我爱北京天安门", "天安门上太阳升", "春眠不觉晓", "处处闻啼鸟", "白日依山尽", "黄河入海流", "万事如意", "芝麻开门",
    "我的密码", "密码",
)  # fmt: skip
_WORDS: Final = (
    "passphrase", "password", "passwort", "passcode", "secret", "welcome", "letmein", "login", "admin",
    "administrator", "root", "default", "changeme", "test", "testing", "example", "qwerty", "iloveyou", "loveyou",
    "princess", "sunshine", "football", "baseball", "superman", "batman", "starwars", "pokemon", "dragon", "monkey",
    "master", "shadow", "michael", "jennifer", "charlie", "whatever", "trustno", "access", "hello", "please",
    "security", "internet", "computer", "shoal", "memory", "memories", "claude", "anthropic", "chatgpt", "openai",
    "cursor", "cloudflare", "worker", "agent", "agents", "owner", "mypass", "pass", "word", "user", "guest", "love",
    "forever", "january", "february", "march", "april", "june", "july", "august", "september", "october", "november",
    "december", "spring", "summer", "autumn", "winter", "monday", "friday", "sunday", "woaini", "aini", "mima",
    "nihao", "woshi", "wode", "zhongguo", "beijing", "shanghai", "laopo", "laogong", "baobei", "xiaoming", "wangluo",
    "diannao", "my", "the", "is", "this", "and", "new", "old", "for", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten",
)  # fmt: skip
_SYMBOLS_ROW: Final = "!@#$%^&*()"
"""The digits' row with shift."""
_LOOK_ALIKES: Final = str.maketrans("013457@$!", "oleastasi")
_NO_LETTERS: Final = re.compile(r"[\W_]+")
_LETTERS_AND_SPACES: Final = re.compile(r"[^\W_]|\s")
_DIGITS: Final = "0123456789"


def is_weak(passphrase: str) -> bool:
    """Say whether a passphrase is made of little more than what everyone takes."""
    typed = passphrase.casefold()
    symbols = set(_LETTERS_AND_SPACES.sub("", typed).replace(_SYMBOLS_ROW, ""))
    if len(set(typed)) < _DISTINCT_MIN:
        return True
    # Both as it stands and with p4ssw0rd spelled out: digits may also be part of a run.
    rest = min(_rest_chars(typed), _rest_chars(typed.translate(_LOOK_ALIKES)))
    return rest + len(symbols) < REST_MIN_CHARS


def _rest_chars(typed: str) -> int:
    """Return how many letters, and digits between them, are left without what is common."""
    rest = _common().sub("", _said_once(_NO_LETTERS.sub("", typed)))
    return len(rest.strip(_DIGITS))


def _said_once(text: str) -> str:
    """Return what a text says over and over, or the text; its end may be cut short."""
    for size in range(1, len(text) // 2 + 1):
        unit = text[:size]
        if (unit * (len(text) // size + 1))[: len(text)] == text:
            return unit
    return text


@cache
def _common() -> re.Pattern[str]:
    """Return a pattern of everything common, the longest first. It is made when it is first needed."""
    runs = "|".join(_run_pattern(way) for row in _ROWS for way in (row, row[::-1]))
    known = "|".join(sorted((*_PHRASES, *_WORDS), key=len, reverse=True))
    return re.compile(rf"(.)\1{{2,}}|{runs}|{known}")


def _run_pattern(row: str) -> str:
    """Return a pattern of every run of a row, at least _RUN_MIN_CHARS long."""
    starts = range(len(row) - _RUN_MIN_CHARS + 1)
    return "|".join(_beginning_pattern(row[start:]) for start in starts)


def _beginning_pattern(text: str) -> str:
    """Return a pattern of a text's beginnings from _RUN_MIN_CHARS on: abcd(?:e(?:f)?)?."""
    more = ""
    for character in reversed(text[_RUN_MIN_CHARS:]):
        more = f"(?:{character}{more})?"
    return text[:_RUN_MIN_CHARS] + more
