"""Words that say little about a text: dropped from a query as long as other words remain.

The index keeps them, so a query made of nothing else still finds.
"""

import re
from typing import Final

_ENGLISH: Final = """
a about above after again all also am an and any are as at be because been before being between both but by
can could did do does doing done during each either else ever few for from further get gets getting got had
has have having he her here hers herself him himself his how i if in into is it its itself just like many may
me might more most much must my myself no nor not now of off on once one only onto or other our ours ourselves
out over own per same shall she should so some such than that the their theirs them themselves then there
these they this those through to too under until up upon us very was we were what when where whether which
while who whom whose why will with within without would you your yours yourself yourselves
d ll m re s t ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ain
"""
_CHINESE: Final = """
我们 你们 他们 她们 它们 咱们 大家 自己 别人 什么 怎么 怎样 如何 为何 哪个 哪些 哪里 哪儿 谁的 多少 几个
这个 那个 这些 那些 这里 那里 这样 那样 这么 那么 一个 一些 一下 一样 是否 是不 不是 就是 还是 但是 可是 只是
可以 能够 应该 因为 所以 如果 虽然 然后 而且 或者 以及 并且 关于 对于 由于 为了 没有 已经 曾经 正在 之前 之后
时候 有没 告诉 请问 为什 么样 么时 候的
"""
ENGLISH: Final = frozenset(_ENGLISH.split())
"""Function words, question words and what unicode61 leaves of contractions ("don't" is 'don' and 't')."""

CHINESE: Final = frozenset(_CHINESE.split())
"""Two-character function and question words, with the pieces that bigrams cut from longer ones (为什么)."""

CHINESE_CHARACTERS: Final = frozenset(
    "的了吗呢吧啊呀嘛么是在有和与或及就都也还又很被把给让向从到对于而且但我你他她它这那哪谁您们着过之其"
)
"""Particles, pronouns and prepositions; a bigram of two of them (们的, 了吗) is a border between words."""

_ENGLISH_ANYTHING: Final = """
anything everything something thing things news plan plans planned scheduled
happen happened happening happens occurred occur go went gone going work worked working talk talked talking discuss
discussed say said learn learned learnt store stored save saved remember remembered record recorded memory memories
note notes noted list show tell give summary summarise summarize recap overview
"""
_CHINESE_ANYTHING: Final = """
发生 安排 计划 事情 情况 事 聊 说 谈 讨论 做 干 忙 工作 学 记 记录 记住 记忆 笔记 存 保存 总结 回顾 列出
些 啥 咱 要 会 能 里 内 过 儿 呢 哈 天
"""
_ANYTHING: Final = frozenset(_ENGLISH_ANYTHING.split())
"""What questions for whatever there is say besides function words: what happened, what did we do, show my notes."""

_CHINESE_ASKING: Final = re.compile(
    "|".join(sorted((*CHINESE, *_CHINESE_ANYTHING.split()), key=len, reverse=True))
    + f"|[{''.join(sorted(CHINESE_CHARACTERS))}]"
)
_WORD: Final = re.compile(r"[^\W_]+")


def names_nothing(question: str) -> bool:
    """Whether a question, in lower case and without the time that it names, asks for whatever there is.

    'what happened', 'what did we do', 做了什么 and '' do; 'what did we decide' names a subject.
    """
    words = _WORD.findall(_CHINESE_ASKING.sub(" ", question))
    return all(word in ENGLISH or word in _ANYTHING for word in words)


def is_stop_word(term: str) -> bool:
    """Whether a lower-case word, or a CJK unigram or bigram, is a function word."""
    return term in ENGLISH or term in CHINESE or all(character in CHINESE_CHARACTERS for character in term)
