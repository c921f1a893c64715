-- Everything that syncs is a cell (id, space, field, rank, hlc, value); the greater (rank, hlc) wins.
-- A record's row is its `init` cell and the columns that filters and sorting need (derived by apply, never synced).

create table if not exists meta (
  k text primary key,
  v
) without rowid;
insert or ignore into meta (k, v) values ('seq', 0), ('clock', 0), ('schema', 0), ('fts', 0);

create table if not exists record (
  rid integer primary key,
  id blob not null,
  space text not null,
  rank integer not null,
  hlc text not null,
  seq integer not null,
  dirty integer not null default 0,
  init text,
  class text,
  life integer not null default 0,
  state integer not null default 0,
  want integer not null default 0,
  type text,
  occurred_at integer,
  created_at integer,
  updated_at integer,
  conversation_id text,
  position integer,
  src blob,
  dst blob
);
-- By id first: a memory is looked up by id alone, and the same id may live in several spaces.
create unique index if not exists record_id on record (id, space);
create index if not exists record_seq on record (seq);
create index if not exists record_dirty on record (rid) where dirty = 1;
-- `want` counts the reasons to make a vector, and stands below 0 once it is made (core's indexing.py).
create index if not exists record_want on record (rid) where want > 0;
create index if not exists record_occurred on record (space, occurred_at) where class = 'memory';
create index if not exists record_updated on record (space, updated_at) where class = 'memory';
create index if not exists record_turn on record (space, conversation_id, position) where conversation_id is not null;
create index if not exists record_trash on record (space, rid) where state = 3;
create index if not exists record_src on record (src) where src is not null;
create index if not exists record_dst on record (dst) where dst is not null;

create table if not exists cell (
  rid integer not null,
  field text not null,
  rank integer not null,
  hlc text not null,
  value,
  seq integer not null,
  dirty integer not null default 0,
  primary key (rid, field)
) without rowid;
create index if not exists cell_seq on cell (seq);
create index if not exists cell_dirty on cell (rid, field) where dirty = 1;
-- Tags, entities, sources that are set: `field` is 'tag:x' and the like.
create index if not exists cell_set on cell (field, rid) where value = 1;

-- A row a passage, numbered rid * 1024 + passage, written only with `init`.
create virtual table if not exists content_fts using fts5(
  content, content='', contentless_delete=1, tokenize='porter unicode61'
);
-- A row a memory, rebuilt whole from `label`: FTS5 can't update one column of a contentless row.
create virtual table if not exists label_fts using fts5(
  type, tags, entities, content='', contentless_delete=1, tokenize='porter unicode61'
);
create table if not exists label (
  text text primary key,
  prepared text not null
) without rowid;
