"""Write the words of every memory anew after text preparation has changed, in bounded steps that may stop anywhere.

meta 'fts' is the version that the words were prepared with; meta 'refts' the rid below which that is still to do.
"""

import json
from collections.abc import Iterator
from typing import Final, cast

from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.passages import passage_words
from shoal.core.protocols import Row, Statement
from shoal.core.rows import json_list
from shoal.core.text import PREPARE_VERSION, prepare
from shoal.schema import sql
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import set_fields

STEP_MAX_CHARS: Final = 200_000
"""Content of one step; its prepared text stays within one statement's bound."""
STEP_MEMORIES: Final = 100

_NEXT: Final = f"""
select r.rid, r.init->>'content' as content,
  {set_fields("tag", "r.rid")} as tags, {set_fields("entity", "r.rid")} as entities
from record r
where r.rid < (select v from meta where k = 'refts') and r.class = 'memory' and r.init is not null
order by r.rid desc limit {STEP_MEMORIES}
"""


async def begin(context: Context) -> None:
    """Note the version in use; when the words were prepared with another, want all of them anew."""
    await context.database.batch(
        [
            Statement(
                "insert into meta (k, v) select 'refts', coalesce(max(rid) + 1, 0) from record where true"
                " on conflict (k) do update set v = excluded.v where (select v from meta where k = 'fts') is not ?1",
                (PREPARE_VERSION,),
            ),
            Statement("update meta set v = ?1 where k = 'fts' and v is not ?1", (PREPARE_VERSION,)),
        ]
    )


async def step(context: Context) -> int:
    """Write the words of some memories anew; return how many. Raises StorageError."""
    rows = list(_within(await context.database.query(_NEXT)))
    if not rows:
        return 0
    contents = [
        [cast("int", row["rid"]) * PASSAGES_MAX + number, words]
        for row in rows
        async for number, words in passage_words(cast("str", row["content"]))
    ]
    labels = {text: prepare(text) for row in rows for text in (*json_list(row["tags"]), *json_list(row["entities"]))}
    rids = [cast("int", row["rid"]) for row in rows]
    await context.database.batch(
        [
            Statement(sql.REINDEX_CONTENT, (compact_json(contents),)),
            Statement(sql.REPREPARE_LABELS, (compact_json(list(labels.items())),)),
            Statement(sql.REINDEX_LABELS, (json.dumps(rids),)),
            Statement("update meta set v = min(v, ?1) where k = 'refts'", (min(rids),)),
        ]
    )
    return len(rows)


def _within(rows: list[Row]) -> Iterator[Row]:
    """Yield the first rows whose content stays within STEP_MAX_CHARS; at least one."""
    size = 0
    for row in rows:
        size += len(cast("str", row["content"]))
        if size > STEP_MAX_CHARS and size > len(cast("str", row["content"])):
            return
        yield row
