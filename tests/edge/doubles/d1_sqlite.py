"""SQLite as D1 runs it: its limits, what its authoriser allows, its error texts, and how rows are counted.

All of it was read off local D1 (workerd 1.20261117.1), which enforces the same as production but for the length of a
value; d1_answers.json holds its answers, and a test compares.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import apsw
from tests.edge.doubles.sdk import JsError

from shoal.core.protocols import SqlValue

SQL_MAX_BYTES: Final = 100_000
VALUE_MAX_BYTES: Final = 2_000_000
"""Of a string, a BLOB or a row: documented, and not enforced by local D1."""

_LIMITS: Final = {
    apsw.SQLITE_LIMIT_LENGTH: VALUE_MAX_BYTES,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 5,
    # Documented; local D1 allows 127.
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 32,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
}
_FUNCTIONS: Final = frozenset(
    """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil changes char coalesce concat concat_ws cos cosh
    count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
    format glob group_concat hex highlight ifnull iif instr json json_array json_array_length json_each json_extract
    json_group_array json_group_object json_insert json_object json_patch json_quote json_remove json_replace json_set
    json_tree json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert
    jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead
    length like likelihood likely ln load_extension log log2 lower ltrim match max min mod nth_value ntile nullif
    octet_length percent_rank pi pow printf quote radians random randomblob rank replace round row_number rtrim sign
    sin sinh snippet soundex sqlite_drop_column sqlite_rename_column sqlite_rename_quotefix sqlite_rename_table
    sqlite_rename_test sqrt strftime string_agg substr substring sum tan tanh time timediff total total_changes trim
    trunc typeof unhex unicode unixepoch unlikely upper zeroblob
    """.split()
)
_PRAGMAS: Final = frozenset(
    """
    case_sensitive_like data_version defer_foreign_keys foreign_key_check foreign_key_list foreign_keys
    ignore_check_constraints index_info index_list index_xinfo legacy_alter_table optimize quick_check
    recursive_triggers reverse_unordered_selects table_info table_list table_xinfo
    """.split()
)
_MODULES: Final = frozenset(("fts5", "fts5vocab", "rtree", "rtree_i32"))
_ABSENT_TABLES: Final = frozenset(("bytecode", "dbstat", "sqlite_dbpage", "sqlite_stmt", "tables_used"))
"""Virtual tables that apsw's SQLite brings and D1's does not."""
_TRANSACTIONS: Final = (
    "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs "
    "instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements."
)
_TEMPORARY: Final = frozenset(
    getattr(apsw, f"SQLITE_{verb}_TEMP_{what}")
    for verb in ("CREATE", "DROP")
    for what in ("TABLE", "INDEX", "TRIGGER", "VIEW")
)
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_LEADING_COMMENT_LINES: Final = re.compile(r"^\s*--.*", re.MULTILINE)
_DOCSIZE: Final = "_docsize"
"""The end of the name of FTS5's table with a row for each document."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one statement gave. Counts of rows are estimates: see `Sqlite`."""

    columns: tuple[str, ...]
    rows: list[tuple[SqlValue, ...]]
    duration_ms: float
    changes: int
    last_row_id: int
    size_bytes: int
    """Of the database afterwards."""
    changed: bool
    """Whether rows, the last rowid or the size changed."""
    rows_read: int
    rows_written: int


class Sqlite:
    """A connection under D1's rules.

    SQLite doesn't count the rows that D1 bills. `rows_read` is estimated as the steps of full scans plus the rows
    returned or changed: too low where an index gives rows that a condition then drops. `rows_written` is a row for
    every row of a table that changes, one more for each index of the table when a row is inserted, and one for each
    document of an FTS5 table; changes of indexes by updates and of the schema are not seen. Take exact counts from
    real D1, in the rig.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._trusted = True
        self._refusal: str | None = None
        self._columns: tuple[str, ...] = ()
        self._scanned = 0
        self._written = 0
        self._schema_version: SqlValue = None
        self._indexes: dict[str, int] = {}
        self._shadows: frozenset[str] = frozenset()
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.execute("pragma foreign_keys = on")
        for limit, value in _LIMITS.items():
            connection.limit(limit, value)
        connection.authorizer = self._authorise
        connection.exec_trace = self._note_columns
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note_scan)
        connection.preupdate_hook(self._note_write)
        self._trusted = False

    def trusted(self, sql: str) -> Any:
        """Run a statement of the double's own and return what it gives. Raises apsw.Error."""
        self._trusted = True
        try:
            # Not cached: a cached statement would no longer ask the authoriser when a Worker sends the same text.
            return self.connection.execute(sql, can_cache=False).get
        finally:
            self._trusted = False

    def size_bytes(self) -> int:
        """Return the size of the database."""
        return self.trusted("pragma page_count") * self.trusted("pragma page_size")

    def run(self, sql: str, params: Sequence[Any]) -> Outcome:
        """Run one statement. Raises JsError as D1 would, without its prefix `D1_ERROR: `."""
        _check_text(sql)
        self._note_schema()
        before, rowid, size = self.connection.total_changes(), self.connection.last_insert_rowid(), self.size_bytes()
        self._columns, self._scanned, self._written, self._refusal = (), 0, 0, None
        started = perf_counter()
        try:
            rows: list[tuple[SqlValue, ...]] = list(self.connection.execute(sql, tuple(params)))
        except apsw.BindingsError:
            raise JsError("Wrong number of parameter bindings for SQL query.") from None
        except apsw.Error as error:
            raise JsError(self._refusal or _text(error)) from error
        duration_ms = (perf_counter() - started) * 1000
        changes, size_after = self.connection.total_changes() - before, self.size_bytes()
        last_row_id = self.connection.last_insert_rowid()
        return Outcome(
            self._columns,
            rows,
            duration_ms,
            changes,
            last_row_id,
            size_after,
            bool(changes) or last_row_id != rowid or size_after != size,
            self._scanned + max(len(rows), changes),
            self._written,
        )

    def _authorise(self, action: int, one: str | None, two: str | None, _database: str | None, _by: str | None) -> int:
        return apsw.SQLITE_OK if self._trusted or self._allowed(action, one, two) else apsw.SQLITE_DENY

    def _allowed(self, action: int, one: str | None, two: str | None) -> bool:
        if action in (apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT):
            self._refusal = _TRANSACTIONS
            return False
        if action in (apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH) or action in _TEMPORARY:
            return False
        if action == apsw.SQLITE_FUNCTION:
            return str(two).lower() in _FUNCTIONS
        if action == apsw.SQLITE_PRAGMA:
            return str(one).lower() in _PRAGMAS
        if action in (apsw.SQLITE_CREATE_VTABLE, apsw.SQLITE_DROP_VTABLE):
            return str(two).lower() in _MODULES
        names = [name.lower() for name in (one, two) if name]
        return not any(name.startswith("_cf_") or name in _ABSENT_TABLES for name in names)

    def _note_columns(self, cursor: apsw.Cursor, _sql: str, _params: object) -> bool:
        if not self._trusted:
            self._columns = tuple(name for name, *_ in cursor.get_description())
        return True

    def _note_scan(self, event: dict[str, Any]) -> None:
        self._scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    def _note_write(self, change: apsw.PreUpdate) -> None:
        table = change.table_name
        if table in self._shadows:
            self._written += table.endswith(_DOCSIZE)
        else:
            self._written += 1 + (self._indexes.get(table, 0) if change.op == "INSERT" else 0)

    def _note_schema(self) -> None:
        """Learn the tables' indexes beforehand: no SQL can run while a change is being noted."""
        version = self.trusted("pragma schema_version")
        if version == self._schema_version:
            return
        self._schema_version = version
        counts = "select json_group_object(tbl_name, n) from (select tbl_name, count(*) n from sqlite_schema"
        self._indexes = json.loads(self.trusted(f"{counts} where type = 'index' group by tbl_name)"))
        shadows = "select json_group_array(name) from pragma_table_list where type = 'shadow'"
        self._shadows = frozenset(json.loads(self.trusted(shadows)))


def _check_text(sql: str) -> None:
    if len(sql.encode()) > SQL_MAX_BYTES:
        raise JsError("statement too long: SQLITE_TOOBIG")
    rest = sql[_end_of_first(sql) :].strip()
    if rest and not _COMMENTS.sub("", rest).strip():
        # The comment is compiled as a statement of its own, and is none.
        raise JsError("SQL code did not contain a statement.")
    if rest:
        # Local D1 refuses this in a batch and runs it alone; the stricter counts for both.
        raise JsError("A SQL prepared statement can only be executed once at a time.")


def is_empty(sql: str) -> bool:
    """Whether D1 sees no statement in a text, and passes over it."""
    return not _LEADING_COMMENT_LINES.sub("", sql).strip()


def _end_of_first(sql: str) -> int:
    for match in re.finditer(";", sql):
        if apsw.complete(sql[: match.end()]):
            return match.end()
    return len(sql)


def _text(error: apsw.Error) -> str:
    """Return SQLite's message with the place and the codes, as D1 gives it."""
    result = getattr(error, "result", apsw.SQLITE_ERROR)
    extended = getattr(error, "extendedresult", result)
    offset = getattr(error, "error_offset", -1)
    text = str(error)
    if offset >= 0:
        text += f" at offset {offset}"
    text += f": {apsw.mapping_result_codes[result]}"
    return text if extended == result else f"{text} (extended: {apsw.mapping_extended_result_codes[extended]})"
