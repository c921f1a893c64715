"""The few lines that people read, in the languages that the product speaks."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Language(StrEnum):
    """A language that people are addressed in."""

    ENGLISH = "en"
    CHINESE = "zh"


class Line(StrEnum):
    """A line that people read; `{}` parts are filled by `say`."""

    RECENT_NONE = "recent_none"
    RETRIEVAL_TITLE = "retrieval_title"
    RETRIEVAL_ABOUT = "retrieval_about"
    RETRIEVAL_QUESTION = "retrieval_question"
    RETRIEVAL = "retrieval"
    SESSION_TITLE = "session_title"
    SESSION_ABOUT = "session_about"
    SESSION = "session"


_LINES: Final[Mapping[Line, Mapping[Language, str]]] = MappingProxyType(
    {
        Line.RECENT_NONE: {
            Language.ENGLISH: "There are no memories yet.",
            Language.CHINESE: "还没有任何记忆。",
        },
        Line.RETRIEVAL_TITLE: {
            Language.ENGLISH: "Answer from memory",
            Language.CHINESE: "根据记忆回答",
        },
        Line.RETRIEVAL_ABOUT: {
            Language.ENGLISH: "Look in the memory first, then answer from what is there.",
            Language.CHINESE: "先在记忆中查找，再根据查到的内容回答。",
        },
        Line.RETRIEVAL_QUESTION: {
            Language.ENGLISH: "The question to answer",
            Language.CHINESE: "要回答的问题",
        },
        Line.RETRIEVAL: {
            Language.ENGLISH: (
                "First call {find} to look in the memory for what bears on the question below. Then answer from what"
                " was found and name the ids that you used. When nothing was found, say so instead of guessing.\n\n"
                "Question: {question}"
            ),
            Language.CHINESE: (
                "请先调用 {find}，在记忆中查找与下面问题有关的内容，然后根据查到的内容回答，并写明用到的记忆的 id。"
                "如果什么也没有查到，请直接说明，不要猜测。\n\n问题：{question}"
            ),
        },
        Line.SESSION_TITLE: {Language.ENGLISH: "Start a session", Language.CHINESE: "开始会话"},
        Line.SESSION_ABOUT: {
            Language.ENGLISH: "Begin with what earlier sessions left, and keep what later ones will need.",
            Language.CHINESE: "从以前会话留下的内容开始，并保存以后会话需要的内容。",
        },
        Line.SESSION: {
            Language.ENGLISH: (
                "Before the first answer of this session, read memory://recent and call {find} with the subject of"
                " the work ahead. Use what bears on it, and don't recite the rest. During the session store with"
                " {store} each decision, preference and lesson that a later session will need: one fact each."
            ),
            Language.CHINESE: (
                "在本次会话的第一次回答之前，请先读取 memory://recent，并以将要进行的工作为主题调用 {find}。"
                "只使用有关的内容，不必复述其余部分。会话过程中，请用 {store} 保存以后会话需要的每一项决定、偏好和经验"
                "，每条只记一个事实。"
            ),
        },
    }
)


def say(line: Line, language: Language, **parts: str) -> str:
    """Return a line in the language with its parts filled in."""
    return _LINES[line][language].format(**parts)


def language_of(wanted: str | None) -> Language:
    """Return the language for an Accept-Language header ("zh-CN,zh;q=0.9") or a locale ("zh_CN.UTF-8").

    The first language by weight that we speak wins; English when there is none.
    """
    ranked: list[tuple[float, int, Language]] = []
    for place, part in enumerate((wanted or "").split(",")):
        tag, _, weight = part.partition(";")
        spoken = _spoken(tag.strip().lower())
        quality = _quality(weight)
        if spoken is not None and quality > 0:
            ranked.append((-quality, place, spoken))
    return min(ranked)[2] if ranked else Language.ENGLISH


def _spoken(tag: str) -> Language | None:
    name = tag.replace("_", "-").partition("-")[0]
    return next((language for language in Language if language == name), None)


def _quality(weight: str) -> float:
    name, _, value = weight.strip().partition("=")
    if name != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
