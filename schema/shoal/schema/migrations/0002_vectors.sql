-- What a vector index that lies apart from the database (the edge's) holds, so that it can be checked and rebuilt.

-- A row a memory that has vectors there. `mark` names their version: it is part of their ids, so a hit of another
-- version, or of a memory that once had this rid, is known for what it is. `mutation` is the index's name for the
-- change, until the index says that it has been applied.
create table if not exists vector_state (
  rid integer primary key,
  model text not null,
  mark text not null,
  passages integer not null,
  made_at integer not null,
  mutation text
);
create index if not exists vector_unconfirmed on vector_state (made_at) where mutation is not null;

-- Versions whose vectors may lie in the index though vector_state doesn't name them: they must go, or be taken over.
-- Noted before the index is asked to take them or to drop them, so that nothing lies there which nobody knows.
create table if not exists vector_gone (
  rid integer not null,
  mark text not null,
  passages integer not null,
  primary key (rid, mark)
) without rowid;

-- Memories whose vectors could not be made though the model works; given up after a number of attempts.
create table if not exists unembedded (
  rid integer primary key,
  attempts integer not null,
  code text not null,
  at integer not null
);

update meta set v = max(v, 2) where k = 'schema';
