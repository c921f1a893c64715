"""Write the words of every memory anew after text preparation has changed, in bounded steps that may stop anywhere.

meta 'fts' is the version that the words were prepared with; meta 'refts' the rid below which that is still to do.
"""

import json
from typing import Final, cast

from shoal.core.apply import json_pages
from shoal.core.context import Context
from shoal.core.passages import passage_words
from shoal.core.protocols import Statement
from shoal.core.rows import json_list
from shoal.core.text import PREPARE_VERSION, prepare
from shoal.schema import sql
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import set_fields

STEP_MAX_BYTES: Final = 400_000
"""Of contents, tags and entities in one step, unless the first memory alone has more: their words fill a few statements
of apply.STATEMENT_MAX_BYTES."""
STEP_MEMORIES: Final = 100

_LABEL_BYTES: Final = """(select coalesce(sum(octet_length(c.field)), 0) from cell c where c.rid = r.rid and c.value = 1
  and (c.field >= 'tag:' and c.field < 'tag;' or c.field >= 'entity:' and c.field < 'entity;'))"""
_NEXT: Final = f"""
with next as (select r.rid, octet_length(r.init) + {_LABEL_BYTES} as size from record r
  where r.rid < (select v from meta where k = 'refts') and r.class = 'memory' and r.init is not null
  order by r.rid desc limit {STEP_MEMORIES}),
  sized as (select rid, size, sum(size) over (order by rid desc) as up_to from next)
select r.rid, r.init->>'content' as content,
  {set_fields("tag", "r.rid")} as tags, {set_fields("entity", "r.rid")} as entities
from sized x cross join record r on r.rid = x.rid where x.up_to <= ?1 or x.up_to = x.size order by r.rid desc
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
    rows = await context.database.query(_NEXT, (STEP_MAX_BYTES,))
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
            *(Statement(sql.REINDEX_CONTENT, (page,)) for page in json_pages(contents)),
            *(Statement(sql.REPREPARE_LABELS, (page,)) for page in json_pages(map(list, labels.items()))),
            Statement(sql.REINDEX_LABELS, (json.dumps(rids),)),
            Statement("update meta set v = min(v, ?1) where k = 'refts'", (min(rids),)),
        ]
    )
    return len(rows)
