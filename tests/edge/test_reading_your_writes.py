"""What was written can be read: at once by its words, by its meaning once the queue has run."""

import pytest
from tests.edge.agreement import reconciled
from tests.edge.doubles.queue import QueueFault
from tests.edge.edge import Edge, codes


def found(edge: Edge, query: str, **fields: object) -> list[tuple[str, list[str]]]:
    """Return the id of each result, best first, with what found it."""
    return [(row["id"], row["why"]) for row in edge.find(query, **fields)]


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("The tide tables are in the blue folder.", "tide table"),
        ("咖啡机在三楼的厨房", "厨房"),
        ("ERR_TLS_CERT_ALTNAME_INVALID at 10.2.3.4:8443", "altname 8443"),
    ],
)
def test_a_new_memory_is_found_by_its_words_though_no_queue_takes_it(edge: Edge, content: str, query: str):
    edge.rig.fail("queue", QueueFault.DAILY, times=10)
    one = edge.store(content)
    answer = edge.search(query)
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert [(note["code"], note["n"]) for note in answer["notes"]] == [("pending", 1)]


def test_a_change_is_found_at_once(edge: Edge):
    one = edge.store("Staging listens on port 8443.", tags="ops")
    edge.update(one, tags={"add": ["network"]})
    assert [row["id"] for row in edge.find("port", tags="network")] == [one]
    new = edge.update(one, content="Staging listens on port 9443.")["superseded_by"]
    assert [row["id"] for row in edge.find("9443")] == [new, one]
    edge.delete(new)
    assert [row["id"] for row in edge.find("port")] == [one]


def test_a_memory_is_found_by_its_meaning_once_the_queue_has_run(edge: Edge):
    one = edge.store("The tide tables are in the blue folder.")
    edge.store("Ana's birthday is on the ninth of May.")
    edge.rig.drain()
    assert found(edge, "when is high water")[0] == (one, ["meaning"])
    assert codes(edge.search("when is high water")) == []
    reconciled(edge)


def test_a_chinese_question_finds_an_english_memory_and_an_english_one_a_chinese(edge: Edge):
    english = edge.store("The coffee machine is in the kitchen on the third floor.")
    chinese = edge.store("预发布环境监听8443端口")
    edge.rig.drain()
    assert found(edge, "咖啡机在哪里?")[0] == (english, ["meaning"])
    assert found(edge, "which port does staging listen on?")[0] == (chinese, ["meaning"])


def test_a_turns_vector_follows_what_was_said_before_it(edge: Edge):
    turns = ["Shall we meet at the harbour?", "Yes, at noon."]
    edge.store_all([{"content": text, "conversation_id": "c", "position": n} for n, text in enumerate(turns)])
    edge.rig.drain()
    edge.store("What I said before that: never mind.", conversation_id="c", position=2)
    edge.rig.drain()
    reconciled(edge)
    assert edge.delete(found(edge, "shall we meet")[0][0])["status"] == "deleted"
    # The next turn's vector begins with the deleted one no longer.
    reconciled(edge)


def test_who_asks_to_wait_finds_by_meaning_at_once(edge: Edge):
    edge.rig.fail("queue", QueueFault.DAILY, times=10)
    one = edge.store("The tide tables are in the blue folder.", wait=True)
    assert found(edge, "when is high water") == [(one, ["meaning"])]
