"""Profile classic: remember, recall, forget, memory_stats."""

from typing import Any

import pytest
from tests.api.faces import mcp_client, mcp_of, refusal, told

from shoal.core.service import Memory


async def ask(memory: Memory, tool: str, **arguments: Any) -> dict[str, Any]:
    async with mcp_client(mcp_of(memory, profile="classic")) as client:
        return told(await client.call_tool(tool, arguments))


async def rows(memory: Memory, query: str = "", **arguments: Any) -> list[dict[str, Any]]:
    return (await ask(memory, "recall", query=query, **arguments))["rows"]


async def test_a_repeat_unites_tags_and_sources(memory: Memory) -> None:
    first = await ask(memory, "remember", content="Ana likes tea", tags="ana,tea", source="chat")
    again = await ask(memory, "remember", content="Ana likes tea", tags="tea,drinks", source="mail")
    assert (first["status"], again["status"]) == ("created", "updated")
    assert first["memo_id"] == first["okf"] == again["memo_id"]
    (row,) = await rows(memory, "tea")
    assert set(row["tags"].split(",")) == {"ana", "tea", "drinks"}
    assert set(row["source"].split(",")) == {"chat", "mail"}
    assert set(row) == {"memo_id", "content", "kind", "tags", "source", "created_at", "updated_at", "score"}


async def test_defaults_are_note_and_manual(memory: Memory) -> None:
    await ask(memory, "remember", content="a plain text")
    (row,) = await rows(memory)
    assert (row["kind"], row["tags"], row["source"]) == ("note", "", "manual")


@pytest.mark.parametrize("kind", ["fact", "preference", "decision", "Shopping list", "nonsense"])
async def test_a_kind_is_echoed_as_it_was_written(memory: Memory, kind: str) -> None:
    await ask(memory, "remember", content="a text", kind=kind)
    (row,) = await rows(memory, "text")
    assert row["kind"] == kind
    async with mcp_client(mcp_of(memory, profile="classic")) as client:
        assert (await client.read_resource("memory://recent")).contents[0].text == f"- [{kind}] a text"


async def test_recall_gives_the_best_first_and_is_clamped(memory: Memory) -> None:
    for n in range(12):
        await ask(memory, "remember", content=f"fact number {n}")
    await ask(memory, "remember", content="the harbour is closed")
    best = await rows(memory, "harbour closed")
    assert best[0]["content"] == "the harbour is closed"
    assert [row["score"] for row in best] == sorted((row["score"] for row in best), reverse=True)
    assert len(await rows(memory)) == 10
    assert len(await rows(memory, limit=0)) == 1
    assert len(await rows(memory, limit=500)) == 13


async def test_an_empty_query_gives_the_latest_by_update(memory: Memory) -> None:
    for content in ("one", "two", "three"):
        await ask(memory, "remember", content=content)
    await ask(memory, "remember", content="one", tags="again")
    assert [row["content"] for row in await rows(memory, "  ")] == ["one", "three", "two"]


async def test_forgetting_is_confirmed_and_can_be_undone_only_knowingly(memory: Memory) -> None:
    memo = (await ask(memory, "remember", content="forget me"))["memo_id"]
    assert await ask(memory, "forget", memo_id=memo) == {"status": "cancelled", "memo_id": memo}
    assert await ask(memory, "forget", memo_id=memo, confirm=True) == {"status": "deleted", "memo_id": memo}
    assert (await ask(memory, "forget", memo_id=memo, confirm=True))["status"] == "not_found"
    assert await rows(memory, "forget") == []
    again = await ask(memory, "remember", content="forget me")
    assert (again["status"], again["memo_id"]) == ("error", memo)
    assert "revive" in again["message"]


@pytest.mark.parametrize("memo", ["0" * 32, "xyz", "", "7"])
async def test_an_unknown_memo_is_not_found(memory: Memory, memo: str) -> None:
    assert await ask(memory, "forget", memo_id=memo, confirm=True) == {"status": "not_found", "memo_id": memo}


async def test_one_text_under_two_kinds_is_two_memos(memory: Memory) -> None:
    one = await ask(memory, "remember", content="Ship on Friday", kind="task")
    other = await ask(memory, "remember", content="Ship on Friday", kind="decision")
    assert one["memo_id"] != other["memo_id"]
    stats = await ask(memory, "memory_stats")
    assert stats == {"total": 2, "by_kind": [{"kind": "decision", "cnt": 1}, {"kind": "task", "cnt": 1}]}


async def test_statistics_count_by_kind(memory: Memory) -> None:
    for content, kind in [("one", "note"), ("two", "note"), ("three", "decision")]:
        await ask(memory, "remember", content=content, kind=kind)
    stats = await ask(memory, "memory_stats")
    assert stats == {"total": 3, "by_kind": [{"kind": "note", "cnt": 2}, {"kind": "decision", "cnt": 1}]}


async def test_an_empty_text_is_refused(memory: Memory) -> None:
    async with mcp_client(mcp_of(memory, profile="classic")) as client:
        refusal(await client.call_tool("remember", {"content": "  "}), "empty_content")


async def test_recall_says_what_it_left_out_or_could_not_do(memory: Memory) -> None:
    for n in range(4):
        await ask(memory, "remember", content=f"{n} " + "word " * 5_000)
    for query in ("word", ""):
        answer = await ask(memory, "recall", query=query)
        assert len(answer["rows"]) == 2
        assert "truncated" in [note["code"] for note in answer["notes"]]
