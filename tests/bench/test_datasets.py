"""The loaders read the published formats, with their known faults. The samples here are made up."""

import json
from datetime import UTC, datetime

import pytest
from bench.datasets import load_locomo, load_madial, turn_keys


def a_locomo_file(tmp_path, **changes):
    sample = {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bo",
            "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "Late."}],
            "session_10_date_time": "12:05 am on 1 March, 2023",
            "session_2": [
                {"speaker": "Ada", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red kite"},
                {"speaker": "Bo", "dia_id": "D2:2", "text": "Nice."},
            ],
            "session_2_date_time": "1:56 pm on 8 May, 2022",
            "session_3_date_time": "1:56 pm on 9 May, 2022",
        },
        "qa": [
            {
                "question": "What was shown?",
                "answer": "a kite",
                "evidence": ["D2:01; D:10:1"],
                "category": 1,
            },
            {"question": "Who?", "answer": "?", "evidence": ["D9:9"], "category": 4},
            {"question": "None?", "answer": "?", "evidence": [], "category": 5},
        ],
    } | changes
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([sample]), encoding="utf-8")
    return path


def test_a_turn_becomes_a_memory_of_its_session_in_the_order_of_the_sessions(tmp_path):
    (collection,) = load_locomo(a_locomo_file(tmp_path))
    assert [(m.key, m.conversation_id, m.position) for m in collection.memories] == [
        ("D2:1", "conv-1/2", 1),
        ("D2:2", "conv-1/2", 2),
        ("D10:1", "conv-1/10", 1),
    ]
    assert collection.memories[0].content == "Ada: Look! [shares a photo: a red kite]"
    assert collection.memories[0].occurred_at == datetime(2022, 5, 8, 13, 56, tzinfo=UTC)
    assert collection.memories[2].occurred_at == datetime(2023, 3, 1, 0, 5, tzinfo=UTC)


def test_questions_whose_evidence_names_no_turn_are_left_out(tmp_path):
    (collection,) = load_locomo(a_locomo_file(tmp_path))
    assert [(q.text, set(q.relevant), q.category) for q in collection.questions] == [
        ("What was shown?", {"D2:1", "D10:1"}, "multi-hop")
    ]


def test_malformed_evidence_is_read_as_it_was_meant():
    assert turn_keys(["D8:6; D9:17", "D:11:26", "D30:05", "D", 7]) == {"D8:6", "D9:17", "D11:26", "D30:5"}


def test_a_turn_without_an_id_is_refused(tmp_path):
    conversation = {
        "session_1": [{"speaker": "A", "dia_id": "x", "text": "y"}],
        "session_1_date_time": "1:56 pm on 8 May, 2022",
    }
    with pytest.raises(ValueError, match="conv-1: 'x'"):
        load_locomo(a_locomo_file(tmp_path, conversation=conversation))


def test_a_madial_question_is_what_was_said_before_the_first_test_turn(tmp_path):
    memory = {"7": {"time": "2023-3-7", "scene": "Sport", "emotion": "Happy", "event": "Al won."}}
    undated = {"8": {"time": "last year", "scene": "Sport", "emotion": "Sad", "event": "Al lost."}}
    dialogue = {
        "dialogue": [
            "<BOD>\n",
            '<Al>: "Hi!"\n',
            '<Assistant>："Good day."\n',
            "<Al>: Well?\n",
            '<Assistant>: "x"\n',
        ],
        "test-turn": [3, 4],
        "relevant-id": [7, 99],
    }
    (tmp_path / "en_memory.jsonl").write_text(f"{json.dumps(memory)}\n\n{json.dumps(undated)}\n", encoding="utf-8")
    (tmp_path / "en_dialogue.jsonl").write_text(json.dumps(dialogue) + "\n", encoding="utf-8")
    collection = load_madial(tmp_path, "en")
    assert [m.content for m in collection.memories] == [
        "Al won. (2023-3-7, Sport, Happy)",
        "Al lost. (last year, Sport, Sad)",
    ]
    assert [m.occurred_at for m in collection.memories] == [datetime(2023, 3, 7, tzinfo=UTC), None]
    assert [(q.text, set(q.relevant)) for q in collection.questions] == [("Hi!\nGood day.", {"7"})]
