-- Replication. A replica's own state stands in `meta` under names that begin with `sync_`; docs/sync.md has them.

-- The edge's history: the sequence number at which each batch of writes ended, and a random name for it. A device keeps
-- the name of the batch that its cursor lies in; that name is unknown once the database was restored to an earlier time
-- and other batches took the numbers. Only the newest are kept.
create table if not exists sync_batch (
  seq integer primary key,
  name text not null
);
insert or ignore into sync_batch (seq, name) select v, lower(hex(randomblob(8))) from meta where k = 'seq';

-- A device's subscription: how far each space has been pulled. The space `*` stands for all of them.
create table if not exists sync_space (
  space text primary key,
  cursor integer not null default 0,
  batch text
) without rowid;

-- A device's quarantine: its own writes that the edge will not take as they are, whose `dirty` is 2.
create table if not exists sync_refused (
  rid integer not null,
  field text not null,
  rank integer not null,
  hlc text not null,
  code text not null,
  message text not null,
  at integer not null,
  primary key (rid, field)
) without rowid;
