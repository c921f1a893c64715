-- Who may call: people's sign-ins, the apps that they have let in, and what each has written. Of every secret (token,
-- code, cookie, form handle, client secret) only the SHA-256 stands here, as 64 hexadecimal characters. Times are
-- milliseconds since 1970 (UTC). docs/security.md explains each column.

-- Apps that may ask to be let in.
create table if not exists oauth_client (
  id text primary key,
  kind text not null,
  name text not null,
  redirect_uris text not null,
  auth_method text not null,
  secret_sha256 text,
  metadata text not null default '{}',
  management_sha256 text,
  network text,
  created_at integer not null,
  used_at integer,
  expires_at integer
) without rowid;
create index if not exists oauth_client_created on oauth_client (created_at);
create index if not exists oauth_client_expires on oauth_client (expires_at) where expires_at is not null;

-- What the owner has allowed: an app by its client, or a device or script by a token of its own.
create table if not exists oauth_grant (
  id text primary key,
  kind text not null,
  client_id text,
  name text not null,
  device text,
  reach text not null,
  resource text,
  created_at integer not null,
  activated_at integer,
  used_at integer,
  expires_at integer,
  revoked_at integer,
  revoked_because text
) without rowid;
create index if not exists oauth_grant_client on oauth_grant (client_id);

-- Authorization codes: used once. `spent_by` names the exchange that has used it.
create table if not exists oauth_code (
  sha256 text primary key,
  grant_id text not null,
  client_id text not null,
  redirect_uri text not null,
  redirect_uri_given integer not null,
  challenge text not null,
  scopes text not null,
  resource text not null,
  expires_at integer not null,
  spent_by text
) without rowid;
create index if not exists oauth_code_expires on oauth_code (expires_at);

-- Access and refresh tokens. A refresh token is good until one made from it is used: `parent` is the one that it was
-- made from, `spent_by` the one made from it that was used first.
create table if not exists oauth_token (
  sha256 text primary key,
  kind text not null,
  grant_id text not null,
  client_id text,
  scopes text not null,
  parent text,
  spent_by text,
  created_at integer not null,
  expires_at integer
) without rowid;
create index if not exists oauth_token_grant on oauth_token (grant_id);
create index if not exists oauth_token_expires on oauth_token (expires_at) where expires_at is not null;

-- The owner: the chosen passphrase, if there is one (the owner's key is a secret of the deployment).
create table if not exists owner_passphrase (
  one integer primary key check (one = 1),
  scheme text not null,
  iterations integer not null,
  rounds integer not null,
  salt text not null,
  hash text not null,
  set_at integer not null
);

-- Browsers in which the owner has signed in.
create table if not exists owner_session (
  sha256 text primary key,
  created_at integer not null,
  expires_at integer not null,
  method text not null,
  network text
) without rowid;

-- Forms that were shown in a session; each is taken once.
create table if not exists owner_form (
  sha256 text primary key,
  session_sha256 text not null,
  purpose text not null,
  payload text not null,
  expires_at integer not null
) without rowid;
create index if not exists owner_form_expires on owner_form (expires_at);

-- Sign-ins that failed, by network address and in all.
create table if not exists owner_attempt (
  key text primary key,
  failures integer not null,
  last_at integer not null,
  locked_until integer not null
) without rowid;

-- Every write and delete: who, by which grant, on which device, which memories; never what they say.
create table if not exists write_log (
  n integer primary key,
  at integer not null,
  action text not null,
  space text not null,
  client text not null,
  token text not null,
  device text not null,
  ids text not null
);
create index if not exists write_log_token on write_log (token, n);

update meta set v = max(v, 3) where k = 'schema';
