"""The shared SQL: one text for SQLite and D1. core/apply.py puts the statements into batches.

Parameters of the writing statements:

    ?1  cells as JSON: [[id, space, field, rank, hlc, value, mode], ...]; id in hexadecimal
    ?2  now, milliseconds since 1970
    ?3  the writing device
    ?4  dirty: 1 for a laptop's own write, 0 for what was pulled, pushed or written at the edge

A cell with a rank comes from another replica and is merged as it is. One without is local: its rank and its
stamp (hlc) are allocated here, inside the batch, so that processes which share a file, and requests which share
a Worker, never get equal stamps; and `mode` says what it may do (class Mode). What a local cell meets is read
here as well, never before: between a read and a batch the world may change.

The clock (meta 'clock') is a hybrid logical clock, milliseconds * 65536 + counter. It exceeds 2^53, so it stays
inside SQL and text. D1 binds every number as REAL, whole ones too, hence the casts: a REAL would lose its counter.
"""

from enum import StrEnum
from typing import Final


class State:
    """record.state: what the cells make of a record."""

    HIDDEN: Final = 0
    """Purged, or not all of it has arrived yet."""
    LIVE: Final = 1
    ARCHIVED: Final = 2
    TRASHED: Final = 3


class Mode(StrEnum):
    """What a local cell may do."""

    STORE = "store"
    """Create a record, or add to a living one; nothing to one in the trash or purged."""
    REVIVE = "revive"
    """As STORE, and bring back what is in the trash or purged."""
    EDIT = "edit"
    """Change a living record."""
    RESTORE = "restore"
    """Take a record out of the trash."""
    PURGE = "purge"
    """Erase a record, living or in the trash."""


# The time to stamp by. A device whose clock is wrong knows by how much (sync's clock.py).
_NOW = "(cast(?2 as integer) + coalesce((select cast(v as integer) from meta where k = 'sync_offset_ms'), 0)) * 65536"
# The batch's stamps start at `t`, its sequence numbers after `s`.
_STAMP = (
    f"(select max((select v from meta where k = 'clock') + 1, {_NOW}) as t, (select v from meta where k = 'seq') as s)"
)
_HLC = "coalesce(j.value->>4, printf('%019d-%s', c.t + j.key, ?3))"
_RECORD_OF_CELL = "m.id = unhex(j.value->>0) and m.space = j.value->>1"
# Records that this batch has touched so far. `indexed by`: the planner would scan.
_TOUCHED = (
    "(select rid from record indexed by record_seq where seq > (select v from meta where k = 'seq')"
    " union select rid from cell indexed by cell_seq where seq > (select v from meta where k = 'seq'))"
)


def set_fields(prefix: str, rid: str) -> str:
    """Return SQL for a JSON list of a record's tags, entities or sources, sorted."""
    return (
        f"(select json_group_array(substr(c.field, {len(prefix) + 2})) from cell c"
        f" where c.rid = {rid} and c.field >= '{prefix}:' and c.field < '{prefix};' and c.value = 1)"
    )


SIZE: Final = "select p.page_count * s.page_size as bytes from pragma_page_count p, pragma_page_size s"
"""How many bytes the database has. For SQLite's drivers only: D1 says it with each result."""

PRIOR: Final = f"""
select j.value->>0 as id, j.value->>1 as space, m.rid, m.rank, m.life, m.state, m.type,
  {set_fields("tag", "m.rid")} as tags
from json_each(?1) j cross join record m on {_RECORD_OF_CELL}
group by m.rid
"""
"""What the batch's records were before it, a row each; none for an unknown one."""

MERGE_INIT: Final = f"""
insert into record (id, space, rank, hlc, seq, dirty, init, class, life, state, want, type, occurred_at,
  created_at, updated_at, conversation_id, position, src, dst)
select unhex(j.value->>0), j.value->>1,
  coalesce(j.value->>3, case when m.rid is null then 1 when m.rank < m.life then m.life else m.rank + 1 end),
  {_HLC}, c.s + j.key + 1, ?4, j.value->>5, i->>'class',
  coalesce(j.value->>3, 1), 1, coalesce(i->>'class' = 'memory', 0), i->>'type', i->>'occurred_at', i->>'created_at', ?2,
  iif(i->>'class' = 'memory', i->>'conversation_id', null), iif(i->>'class' = 'memory', i->>'position', null),
  iif(i->>'class' = 'edge', unhex(i->>'src'), null), iif(i->>'class' = 'edge', unhex(i->>'dst'), null)
from (select key, value, value->>5 as i from json_each(?1) where value->>2 = 'init') j
  left join record m on {_RECORD_OF_CELL}
  cross join {_STAMP} c
where j.value->>3 is not null
  or case j.value->>6
    when 'store' then m.rid is null or m.rank < m.life
    when 'revive' then m.rid is null or m.rank < m.life or m.rank % 2 = 0
    when 'purge' then m.rank % 2 = 1 and m.rank = m.life
  end
on conflict (id, space) do update set
  rank = excluded.rank, hlc = excluded.hlc, seq = excluded.seq, dirty = excluded.dirty, init = excluded.init,
  class = coalesce(excluded.class, class), state = 1,
  want = case when coalesce(excluded.class, class) = 'memory' then abs(want) + 1 else want end,
  type = excluded.type, occurred_at = excluded.occurred_at, created_at = excluded.created_at,
  conversation_id = excluded.conversation_id, position = excluded.position, src = excluded.src, dst = excluded.dst
where (excluded.rank, excluded.hlc) > (record.rank, record.hlc)
"""
"""Merge the `init` cells. `life` and `state` are those of a new memory, so that MODEL has nothing to write for one;
for all others they are provisional. A class that isn't known here is neither edge nor turn, whatever its `init` says.
"""

STUB: Final = """
insert or ignore into record (id, space, rank, hlc, seq)
select unhex(value->>0), value->>1, 0, '', 0 from json_each(?1)
where value->>2 <> 'init' and value->>3 is not null
"""
"""A hidden row for cells that arrive before their record's `init`."""

MERGE_CELLS: Final = f"""
insert into cell (rid, field, rank, hlc, value, seq, dirty)
select m.rid, j.value->>2, coalesce(j.value->>3, m.rank), {_HLC}, j.value->>5, c.s + j.key + 1, ?4
from json_each(?1) j cross join record m on {_RECORD_OF_CELL} cross join {_STAMP} c
where j.value->>2 <> 'init' and (j.value->>3 is not null or (
  m.rank % 2 = 1
  and case j.value->>6 when 'restore' then m.state = 3 when 'revive' then m.state > 0 else m.state in (1, 2) end
  and case j.value->>2 when 'type' then m.type when 'occurred_at' then m.occurred_at else coalesce(
      (select x.value from cell x where x.rid = m.rid and x.field = j.value->>2 and x.rank = m.rank),
      case when j.value->>5 = 0 and j.value->>2 <> 'importance' then 0 end)
    end is not j.value->>5))
on conflict (rid, field) do update set
  rank = excluded.rank, hlc = excluded.hlc, value = excluded.value, seq = excluded.seq, dirty = excluded.dirty
where (excluded.rank, excluded.hlc) > (cell.rank, cell.hlc)
"""
"""Merge all other cells. A local one is written only where it changes something; an absent flag counts as 0.

Importance is no flag: none means 1.
"""

ERASE_CELLS: Final = f"""
delete from cell where (rid, field) in (
  select x.rid, x.field from {_TOUCHED} t cross join record m on m.rid = t.rid
    cross join cell x on x.rid = m.rid and x.rank < m.rank)
"""
"""Cells of a life that has ended. Needed when an `init` of a rank over 1 may come in."""

ERASE_CONTENT: Final = """
delete from content_fts where rowid in (
  select f.rowid from record m indexed by record_seq
    cross join content_fts f on f.rowid between m.rid * 1024 and m.rid * 1024 + 1023
  where m.seq > (select v from meta where k = 'seq'))
"""
"""The words of what this batch purges or writes anew."""


# `limit -1`: drawn into the outer query, `life` would be found anew, from all of a record's cells, for each of them.
def _model(more: str) -> str:
    return f"""
update record set (life, state, type, occurred_at, updated_at) = (x.life, x.state, x.type, x.occurred_at, x.updated_at)
  {more}
from (
  select m.rid, m.life,
    case when m.rank % 2 = 0 or m.rank < m.life then 0
      when max(c.value) filter (where c.field = 'trash') is not null then 3
      when max(c.value) filter (where c.field = 'archived') = 1 then 2
      else 1 end as state,
    coalesce(max(c.value) filter (where c.field = 'type'), m.init->>'type') as type,
    coalesce(max(c.value) filter (where c.field = 'occurred_at'), m.init->>'occurred_at') as occurred_at,
    cast(substr(max(m.hlc, coalesce(
      max(c.hlc) filter (where c.field not glob 'n:*' and c.field not glob 'last:*'), '')), 1, 19)
      as integer) >> 16 as updated_at
  from (
    select r.rid, r.rank, r.hlc, r.init,
      max(r.rank, coalesce((select max(rank) from cell where rid = r.rid), 0)) as life
    from {_TOUCHED} t cross join record r on r.rid = t.rid limit -1) m
    left join cell c on c.rid = m.rid and c.rank = m.life
  group by m.rid) x
where x.rid = record.rid and (record.life, record.state, record.type, record.occurred_at, record.updated_at)
  is not (x.life, x.state, x.type, x.occurred_at, x.updated_at)
"""


MODEL: Final = _model("")
"""Settle what filters and sorting need, from the `init` and the cells of the record's greatest rank.

Recall counts (`n:<device>`, `last:<device>`) don't make a memory updated.
"""
MODEL_WANTING: Final = _model(
    """, want = case when class = 'memory'
    and (record.state, record.type, record.occurred_at) is not (x.state, x.type, x.occurred_at)
    then abs(want) + 1 else want end"""
)
"""The same where the vector index lies apart from the database and filters by what it was told."""

INDEX_CONTENT: Final = f"""
insert or replace into content_fts (rowid, content)
select m.rid * 1024 + (j.value->>2), j.value->>3
from json_each(?1) j cross join record m on {_RECORD_OF_CELL}
where m.init is not null and m.seq > (select v from meta where k = 'seq')
"""
"""?1 = [[id, space, passage, prepared text], ...]: the words of memories whose `init` this batch has written."""


def _used_as(prefix: str, text: str) -> str:
    """Return SQL for: a memory has this tag or entity in its present life."""
    return (
        "exists (select 1 from cell c indexed by cell_set cross join record r on r.rid = c.rid and r.rank <= c.rank"
        f" where c.value = 1 and c.field = '{prefix}:' || {text})"
    )


PREPARE_LABELS: Final = f"""
insert or ignore into label (text, prepared)
select j.value->>0, j.value->>1 from json_each(?1) j
where {_used_as("tag", "(j.value->>0)")} or {_used_as("entity", "(j.value->>0)")}
"""
"""?1 = [[tag or entity, prepared text], ...]. What the batch did not write leaves no word behind."""

ERASE_LABEL_TEXTS: Final = f"""
delete from label where text in (
  select substr(x.field, instr(x.field, ':') + 1)
  from {_TOUCHED} t cross join record m on m.rid = t.rid cross join cell x on x.rid = m.rid and x.rank < m.rank
  where x.field glob 'tag:*' or x.field glob 'entity:*')
  and not ({_used_as("tag", "label.text")} or {_used_as("entity", "label.text")})
"""
"""The words of tags and entities that only lives which have ended had. Goes before ERASE_CELLS."""


def _labels(prefix: str) -> str:
    """Return the prepared text of a memory's tags or entities; the text itself where none was brought."""
    return (
        f"(select group_concat(coalesce(l.prepared, substr(c.field, {len(prefix) + 2})), ' ')"
        f" from cell c left join label l on l.text = substr(c.field, {len(prefix) + 2})"
        f" where c.rid = m.rid and c.field >= '{prefix}:' and c.field < '{prefix};' and c.value = 1)"
    )


_INDEX_LABELS = f"""
insert or replace into label_fts (rowid, type, tags, entities)
select m.rid, m.type, {_labels("tag")}, {_labels("entity")}
from %s t cross join record m on m.rid = t.rid
where m.class = 'memory' and m.state > 0
"""
INDEX_LABELS: Final = _INDEX_LABELS % _TOUCHED
ERASE_LABELS: Final = f"""
delete from label_fts where rowid in (
  select m.rid from {_TOUCHED} t cross join record m on m.rid = t.rid where m.class = 'memory' and m.state = 0)
"""

NEXT_TURN: Final = (
    "cross join record n on m.conversation_id is not null and n.space = m.space"
    " and n.conversation_id = m.conversation_id and n.position = m.position + 1"
)
"""From a turn `m` to the turn `n` after it."""
WANT_NEXT_TURN: Final = f"""
update record set want = abs(want) + 1 where rid in (
  select n.rid from {_TOUCHED} t cross join record m on m.rid = t.rid {NEXT_TURN})
"""
"""A turn's vector is made of the previous turn and the turn: when one comes or goes, the next is made anew."""

WANT_AFTER_PURGED: Final = f"""
update record set want = abs(want) + 1 where rid in (
  select n.rid from json_each(?1) j cross join record m on {_RECORD_OF_CELL} {NEXT_TURN}
  where j.value->>2 = 'init' and j.value->>5 is null)
"""
"""The same for turns that this batch purges; goes first, as nothing tells their place afterwards."""

WANT_ANEW: Final = """
update record set want = abs(want) + 1 where want <= 0 and class = 'memory' and rid in (select value from json_each(?1))
"""
"""?1 = [rid, ...]: memories whose vectors an index apart has lost or has wrong."""

WANT_LIVING: Final = """
update record set want = abs(want) + 1
where class = 'memory' and state in (1, 2) and rid in (select value from json_each(?1))
"""
"""?1 = [rid, ...]: memories whose vectors are removed because they went away, if they have come back meanwhile."""
_SAME_VERSION: Final = "x.rid = j.value->>0 and x.mark = j.value->>1"
WANT_SWEPT: Final = f"""
update record set want = abs(want) + 1 where class = 'memory' and rid in (
  select j.value->>0 from json_each(?1) j
  where not exists (select 1 from vector_gone x where {_SAME_VERSION})
    and not exists (select 1 from vector_state x where {_SAME_VERSION}))
"""
"""?1 = [[rid, mark, passages], ...]: versions just given to an index apart, which somebody has swept out meanwhile."""
WANT_DROPPED: Final = f"""
update record set want = abs(want) + 1 where class = 'memory' and rid in (
  select j.value->>0 from json_each(?1) j where exists (select 1 from vector_state x where {_SAME_VERSION}))
"""
"""?1 = [[rid, mark, passages], ...]: versions just swept out, which somebody has made the present one meanwhile."""

MARK_WORDS: Final = """
insert into meta (k, v) select 'erase_words', 1
where exists (select 1 from record indexed by record_seq where seq > (select v from meta where k = 'seq')
  and rank % 2 = 0)
on conflict (k) do update set v = case v when 0 then 1 else 3 end where v in (0, 2)
"""
"""FTS5 only marks what is deleted from a contentless table: its words stay in the file until the index is merged.

meta 'erase_words' is 1 when that is due, 2 while it is done, and 3 when it is due again afterwards.
"""

MERGE_PAGES: Final = 500
"""Of 4 kB, that one part of merging writes: about 20 ms. The whole index at once could take longer than D1 allows."""


def _merge(table: str, pages: int) -> str:
    return f"insert into {table} ({table}, rank) values ('merge', {pages})"


_CHANGES: Final = "select total_changes() as n"
BEGIN_ERASING: Final = (
    _merge("content_fts", -MERGE_PAGES),
    _merge("label_fts", -MERGE_PAGES),
    "update meta set v = 2 where k = 'erase_words' and v = 1",
)
"""Begin to write the word indexes anew, without what was deleted (fts5.html, 'The merge command')."""
GO_ON_ERASING: Final = (
    _CHANGES,
    _merge("content_fts", MERGE_PAGES),
    _CHANGES,
    _merge("label_fts", MERGE_PAGES),
    _CHANGES,
)
"""Go on with it. An index is done when merging it has changed no more than one row."""
END_ERASING: Final = "update meta set v = case v when 3 then 1 else 0 end where k = 'erase_words' and v > 1"

LOG: Final = f"""
insert into write_log (at, action, space, client, token, device, ids)
select ?1, ?2, x.space, ?3, ?4, ?5, json_group_array(x.id)
from (select m.space, lower(hex(m.id)) as id from {_TOUCHED} t cross join record m on m.rid = t.rid
  where m.class = 'memory' order by m.rid) x
group by x.space
"""
"""Say who has written the memories that this batch has changed so far, a row a space; none when nothing was changed."""

BUMP: Final = f"""
update meta set v = case k when 'seq' then v + json_array_length(?1)
  else max(v + 1, {_NOW},
      coalesce((select max(cast(substr(value->>4, 1, 19) as integer)) from json_each(?1)), 0))
    + json_array_length(?1) end
where k in ('seq', 'clock')
  and (exists (select 1 from {_TOUCHED}) or exists (select 1 from json_each(?1) where value->>4 is not null))
"""
"""Last of a batch: sequence numbers and the clock move past all that it used or received."""

NAME_BATCH: Final = "insert or ignore into sync_batch (seq, name) select v, ?1 from meta where k = 'seq'"
"""Goes after BUMP where a history is kept: how devices notice that the database was restored to an earlier time."""

REINDEX_CONTENT: Final = """
insert or replace into content_fts (rowid, content)
select j.value->>0, j.value->>1
from json_each(?1) j cross join record m on m.rid = (j.value->>0) / 1024 and m.init is not null
"""
"""?1 = [[rid * 1024 + passage, prepared text], ...], after a change of text preparation."""

REPREPARE_LABELS: Final = f"""
insert or replace into label (text, prepared)
select j.value->>0, j.value->>1 from json_each(?1) j
where {_used_as("tag", "(j.value->>0)")} or {_used_as("entity", "(j.value->>0)")}
"""
"""?1 = [[tag or entity, prepared text], ...]; those that went meanwhile are left out."""

REINDEX_LABELS: Final = _INDEX_LABELS % "(select value as rid from json_each(?1))"
"""?1 = [rid, ...]."""
