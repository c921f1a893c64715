"""Made-up memories, as many as wanted, always the same: notes of a software team, one in five in Chinese.

Words follow a skewed distribution, as in real notes, so that common words are common and rare ones rare.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_PEOPLE: Final = (
    "Alice Bob Carol Dmitri Elena Farid Grace Hiro Ines Jonas Kofi Lena Mira Noor Oskar Priya Quentin Rosa Sven Tara"
).split()
_SERVICES: Final = (
    "billing checkout search ledger mailer gateway scheduler importer exporter catalog identity reporting uploader"
    " thumbnailer notifier webhook archive pricing inventory analytics"
).split()
_CAUSES: Final = (
    "an expired certificate|a missing index|a race in the cache|a full disk|a wrong time zone|a stale feature flag"
    "|a slow query|an unbounded retry|a leaked connection|a malformed header|a bad migration|a typo in the manifest"
).split("|")
_ACTIONS: Final = (
    "failed after|was rolled back because of|slowed down under|recovered once we removed|alerted on|now avoids"
    "|was rewritten to survive|was blocked by|passed the audit despite|lost messages through"
).split("|")
_PREFERENCES: Final = (
    "short stand-ups|dark themes|tabs over spaces|reviews before lunch|written decisions|pair programming"
    "|trunk-based development|long walks while thinking|tea instead of coffee|meetings without slides"
).split("|")
_PLACES: Final = "Lisbon Oslo Kyoto Nairobi Quito Tallinn Porto Leeds Graz Hanoi".split()
_ZH_SERVICES: Final = "账单 搜索 网关 调度 邮件 库存 报表 登录 导出 通知".split()
_ZH_CAUSES: Final = "证书过期 缺少索引 缓存竞争 磁盘已满 时区错误 慢查询 连接泄漏 配置写错".split()
_ZH_PREFERENCES: Final = "深色主题 简短的会议 书面决定 结对编程 喝茶 早上评审代码 安静的办公室 远程工作".split()
_TAGS: Final = "proj:atlas proj:borealis proj:comet topic:deploy topic:incident topic:people ops team draft".split()
_CHINESE_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Note:
    """A made-up memory, and a question that it answers."""

    content: str
    tags: tuple[str, ...]
    question: str


def notes(n: int, seed: int = 8377) -> Iterator[Note]:
    """Yield n distinct notes."""
    rng = random.Random(seed)
    for number in range(n):
        make = _chinese if rng.random() < _CHINESE_SHARE else rng.choice((_incident, _preference, _travel))
        content, question = make(rng, number)
        tags = tuple(dict.fromkeys(_skewed(rng, _TAGS) for _ in range(rng.randint(0, 3))))
        yield Note(content, tags, question)


def _skewed(rng: random.Random, words: Sequence[str]) -> str:
    return words[int(len(words) * rng.random() ** 2)]


def _incident(rng: random.Random, number: int) -> tuple[str, str]:
    service, cause, who = _skewed(rng, _SERVICES), _skewed(rng, _CAUSES), _skewed(rng, _PEOPLE)
    build = f"{rng.randrange(16**6):06x}"
    text = (
        f"Build {build} of the {service} service {_skewed(rng, _ACTIONS)} {cause}; {who} wrote runbook {number} and"
        f" asked {_skewed(rng, _PEOPLE)} to watch the dashboards for {rng.randint(2, 72)} hours."
    )
    return text, f"why did build {build} of {service} go wrong?"


def _preference(rng: random.Random, number: int) -> tuple[str, str]:
    who, what = _skewed(rng, _PEOPLE), _skewed(rng, _PREFERENCES)
    text = f"{who} told us in meeting {number} that {what} help the {_skewed(rng, _SERVICES)} team most."
    return text, f"what did {who} say in meeting {number} about the team?"


def _travel(rng: random.Random, number: int) -> tuple[str, str]:
    who, place = _skewed(rng, _PEOPLE), _skewed(rng, _PLACES)
    text = (
        f"{who} travels to {place} for workshop {number} on {_skewed(rng, _SERVICES)} and stays {rng.randint(2, 9)}"
        f" nights; {_skewed(rng, _PEOPLE)} covers the on-call rota meanwhile."
    )
    return text, f"where does {who} go for workshop {number}?"


def _chinese(rng: random.Random, number: int) -> tuple[str, str]:
    who, service = _skewed(rng, _PEOPLE), _skewed(rng, _ZH_SERVICES)
    if rng.random() < 0.5:
        cause = _skewed(rng, _ZH_CAUSES)
        text = f"{service}服务在第{number}次发布时因为{cause}而失败，{who}已经写好了处理手册。"
        return text, f"第{number}次发布为什么失败？"
    what = _skewed(rng, _ZH_PREFERENCES)
    return f"{who}在第{number}次会议上说，{what}对{service}团队最有帮助。", f"第{number}次会议上谁提到了{what}？"
