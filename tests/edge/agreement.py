"""After whatever has gone wrong: the index holds the vectors of what lies in the database, and nothing else."""

from typing import Any

from tests.edge.edge import Edge

from shoal.core.indexing import CONTEXT_MAX_CHARS, text_hash
from shoal.core.passages import split
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.ontology import Ontology
from shoal.worker.models import DEFAULT
from shoal.worker.vector_ids import mark, metadata, vector_id

GET_IDS = 20
"""Ids that Vectorize looks up in one call."""
ONTOLOGY = Ontology.builtin()
IN_THE_INDEX = """
select r.rid, r.init->>'content', r.space, r.type, r.occurred_at, r.state = 2,
  (select p.init->>'content' from record p where p.space = r.space and p.conversation_id = r.conversation_id
    and p.position = r.position - 1 and p.state in (1, 2))
from record r where r.class = 'memory' and r.state in (1, 2)
  and r.rid not in (select rid from unembedded) order by r.rid
"""


def reconciled(edge: Edge) -> None:
    """Let the queue run dry and one reconcile run; then database and index must agree."""
    edge.catch_up()
    agree(edge)


def agree(edge: Edge) -> None:
    """Compare the database with the index: ids, which tell the texts that were embedded, and metadata."""
    expected: dict[str, Any] = {}
    for rid, content, space, type_name, occurred_ms, archived, previous in edge.rows(IN_THE_INDEX):
        told = metadata(
            space=space,
            type_name=type_name,
            kind=ONTOLOGY.info(type_name).kind,
            occurred_ms=occurred_ms,
            archived=bool(archived),
        )
        expected |= dict.fromkeys(vectors_of(rid, content, previous), told)
    assert edge.vector_ids() == sorted(expected)
    assert held(edge, list(expected)) == expected
    noted = [
        vector_id(rid * PASSAGES_MAX + number, version)
        for rid, version, passages in edge.rows("select rid, mark, passages from vector_state")
        for number in range(passages)
    ]
    assert sorted(noted) == sorted(expected)
    assert edge.rows("select * from vector_gone") == []
    assert edge.rows("select rid, want from record where want > 0") == []


def vectors_of(rid: int, content: str, previous: str | None) -> list[str]:
    """Return the ids of a memory's vectors: they name its texts, the first with the turn before it in front."""
    texts = [passage.text for passage in split(content)]
    if previous is not None:
        texts[0] = f"{previous[-CONTEXT_MAX_CHARS:]}\n{texts[0]}"
    version = mark(DEFAULT.fingerprint, map(text_hash, texts))
    return [vector_id(rid * PASSAGES_MAX + number, version) for number in range(len(texts))]


def held(edge: Edge, ids: list[str]) -> dict[str, Any]:
    """Return the metadata of the vectors that the index has, by id."""
    found: dict[str, Any] = {}
    for start in range(0, len(ids), GET_IDS):
        for vector in edge.vectorize("getByIds", ids[start : start + GET_IDS]):
            found[vector["id"]] = vector["metadata"]
    return found
