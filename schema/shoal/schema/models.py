"""Requests and answers of the Memory service: the one form that MCP tools, REST and the command line share.

Times in requests are ISO 8601 or expressions ('yesterday', '上周') in the caller's time zone; in answers ISO 8601
in UTC. Ids are 32 lower-case hexadecimal characters. Ranges are checked by the service, which clamps them with a
note for tools and refuses them for REST.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from shoal.schema.limits import FIND_DEFAULT, PAGE_DEFAULT
from shoal.schema.ontology import Kind

Tags = list[str] | str
"""A list of tags, or one string with commas."""
Spaces = list[str] | str
"""A space, several, or `*` for all that the caller may read."""


class Request(BaseModel):
    """Base of what callers send: unknown fields are refused, values never converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Answer(BaseModel):
    """Base of what callers get."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoteCode(StrEnum):
    """What a note is about."""

    LEXICAL_ONLY = "lexical_only"
    """No model: words were searched, meanings were not."""
    OTHER_MODEL = "other_model"
    """The model that the settings name can't be used; another one makes the vectors."""
    PENDING = "pending"
    """Some memories have no vector yet and are found by their words only."""
    NOT_EMBEDDED = "not_embedded"
    """The model refused some memories again and again; they are found by their words only."""
    OVER_QUOTA = "over_quota"
    """A service's daily quota is used up; what waits for it goes on by itself at the time that the message names."""
    UNDELIVERED = "undelivered"
    """Messages of the queue could not be delivered."""
    SYNC = "sync"
    """Memories are not exchanged with the edge as they should be."""
    PARTIAL = "partial"
    """Not all that matches could be looked at."""
    CLAMPED = "clamped"
    """A number was out of range and was moved to its border."""
    TRUNCATED = "truncated"
    """Something long was cut."""
    TIME = "time"
    """A time in the query was understood as a range."""
    MISSING = "missing"
    """Some ids were not found."""
    FORGOTTEN = "forgotten"
    """The text was deleted before; `revive` brings it back."""
    CONFIRM = "confirm"
    """Nothing was done: it waits for a confirmation."""
    TYPE_CHANGED = "type_changed"
    """The memory was stored under another type before."""


class Note(Answer):
    """Something the caller should know about an answer."""

    code: NoteCode
    message: str
    n: int | None = None


class StoreItem(Request):
    """One memory to store."""

    content: Annotated[str, Field(description="The text to remember")]
    type: Annotated[str | None, Field(description="Type or kind; default note")] = None
    tags: Annotated[Tags | None, Field(description="List or comma string; ns:value or free")] = None
    metadata: Annotated[dict[str, JsonValue] | None, Field(description="Any JSON values by key")] = None
    source: Annotated[str | None, Field(description="Where it came from")] = None
    entities: Annotated[list[str] | None, Field(description="Names it is about")] = None
    occurred_at: Annotated[str | None, Field(description="When it happened: ISO 8601 or 'yesterday'")] = None
    conversation_id: Annotated[str | None, Field(description="One session of a conversation")] = None
    position: Annotated[int | None, Field(description="Turn number in it")] = None
    importance: Annotated[float | None, Field(description="0..2, default 1")] = None


class StoreRequest(Request):
    """Store one memory, or `items`."""

    content: Annotated[str | None, Field(description="The text to remember")] = None
    type: Annotated[str | None, Field(description="Type or kind; default note")] = None
    tags: Annotated[Tags | None, Field(description="List or comma string; ns:value or free")] = None
    metadata: Annotated[dict[str, JsonValue] | None, Field(description="Any JSON values by key")] = None
    source: Annotated[str | None, Field(description="Where it came from")] = None
    entities: Annotated[list[str] | None, Field(description="Names it is about")] = None
    occurred_at: Annotated[str | None, Field(description="When it happened: ISO 8601 or 'yesterday'")] = None
    conversation_id: Annotated[str | None, Field(description="One session of a conversation")] = None
    position: Annotated[int | None, Field(description="Turn number in it")] = None
    importance: Annotated[float | None, Field(description="0..2, default 1")] = None
    items: Annotated[list[StoreItem] | None, Field(description="Several memories instead of one")] = None
    wait: Annotated[bool, Field(description="Embed before answering")] = False
    revive: Annotated[bool, Field(description="Bring back a text that was deleted")] = False
    space: str | None = None
    time_zone: str | None = None


class StoreStatus(StrEnum):
    """What became of one memory."""

    CREATED = "created"
    MERGED = "merged"
    REVIVED = "revived"
    WAS_FORGOTTEN = "was_forgotten"


class Stored(Answer):
    """What became of one memory."""

    success: bool
    id: str
    content_hash: str
    """Equal to `id`: the fingerprint of the content."""
    type: str
    tags: list[str]
    status: StoreStatus
    type_changed: bool = False
    notes: list[Note] = []


class StoreAnswer(Stored):
    """Answer to storing one memory."""


class StoreBatchAnswer(Answer):
    """Answer to storing several: one result an item, in order."""

    success: bool
    results: list[Stored]
    notes: list[Note] = []


class StateName(StrEnum):
    """Where a memory stands."""

    LIVE = "live"
    ARCHIVED = "archived"
    TRASHED = "trashed"


class Criteria(Request):
    """Which memories: the filters that find, list and delete share."""

    type: Annotated[Spaces | None, Field(description="Types; a base type covers its subtypes")] = None
    kind: Annotated[Kind | None, Field(strict=False, description="episodic, semantic or procedural")] = None
    tags: Annotated[Tags | None, Field(description="List or comma string")] = None
    tags_mode: Literal["any", "all"] = "any"
    entity: str | None = None
    conversation_id: str | None = None
    since: Annotated[str | None, Field(description="ISO 8601 or 'last week'")] = None
    until: str | None = None
    time: Annotated[str | None, Field(description="A range: 'yesterday', '2026-03', '上周'")] = None
    time_field: Literal["occurred", "created"] = "occurred"
    space: Annotated[Spaces | None, Field(description="Space, list, or * for all")] = None
    time_zone: Annotated[str | None, Field(description="IANA name")] = None


class FindRequest(Criteria):
    """Search by meaning and words."""

    query: Annotated[str, Field(description="What to look for; empty = newest")] = ""
    n_results: Annotated[int, Field(description="1..50")] = FIND_DEFAULT
    min_score: Annotated[float, Field(description="0..1")] = 0.0
    include_archived: bool = False
    include_edges: bool = False
    explain: Annotated[bool, Field(description="Show how scores came about")] = False


class Edge(Answer):
    """A relation between two memories, seen from one of them."""

    id: str
    relation: str
    source: str
    target: str


class Found(Answer):
    """One result of a search: a short row; memory_get returns the whole text."""

    id: str
    type: str
    kind: Kind
    snippet: str
    tags: list[str]
    score: float
    occurred_at: str
    state: StateName
    space: str
    why: list[str]
    edges: list[Edge] | None = None
    explain: dict[str, float] | None = None


class FindAnswer(Answer):
    """Results, best first."""

    results: list[Found]
    total_considered: int
    notes: list[Note] = []


class GetRequest(Criteria):
    """Read memories whole by id, or list them page by page when no id is given."""

    id: str | None = None
    ids: list[str] | None = None
    with_edges: bool = False
    with_history: Annotated[bool, Field(description="What it superseded and was superseded by")] = False
    page: Annotated[int, Field(description="From 1")] = 1
    page_size: Annotated[int, Field(description="1..100")] = PAGE_DEFAULT
    order: Literal["newest", "oldest", "updated"] = "newest"
    include_archived: bool = False
    trash: Annotated[bool, Field(description="List the trash instead")] = False


class MemoryOut(Answer):
    """A memory, whole."""

    id: str
    content: str
    type: str
    kind: Kind
    tags: list[str]
    metadata: dict[str, Any]
    sources: list[str]
    entities: list[str]
    importance: float
    conversation_id: str | None
    position: int | None
    occurred_at: str
    created_at: str
    updated_at: str
    state: StateName
    space: str
    superseded_by: str | None = None
    restorable_until: str | None = None
    reason: str | None = None
    """Why it was deleted, if somebody said so; only in the trash."""
    edges: list[Edge] | None = None
    history: list[str] | None = None
    """Ids of the versions of this memory, oldest first, itself included."""


class GetAnswer(Answer):
    """Memories in the order asked for."""

    memories: list[MemoryOut]
    page: int | None = None
    page_size: int | None = None
    more: bool | None = None
    """Whether another page follows."""
    notes: list[Note] = []


class TagChanges(Request):
    """Tags to add and to remove."""

    add: Tags | None = None
    remove: Tags | None = None
    set: Annotated[Tags | None, Field(description="Exactly these")] = None


class UpdateRequest(Request):
    """Change a memory. New content makes a new memory that supersedes it."""

    id: str
    content: Annotated[str | None, Field(description="New text: makes a new memory that supersedes this one")] = None
    type: str | None = None
    tags: Annotated[TagChanges | Tags | None, Field(description="{add, remove} or exactly these")] = None
    metadata: Annotated[dict[str, JsonValue] | None, Field(description="Merged; null removes a key")] = None
    importance: Annotated[float | None, Field(description="0..2")] = None
    occurred_at: str | None = None
    archived: Annotated[bool | None, Field(description="In or out of the archive")] = None
    revive: Annotated[bool, Field(description="Take it out of the trash")] = False
    space: str | None = None
    time_zone: str | None = None


class UpdateAnswer(Answer):
    """What became of an update."""

    success: bool
    id: str
    superseded_by: str | None = None
    notes: list[Note] = []


class DeleteRequest(Criteria):
    """Put memories into the trash, or purge them for good."""

    id: str | None = None
    ids: list[str] | None = None
    dry_run: bool = False
    confirm: Annotated[bool, Field(description="Without it nothing goes; the answer says what would")] = False
    purge: Annotated[bool, Field(description="Erase for good, everywhere")] = False
    reason: str | None = None


class DeleteStatus(StrEnum):
    """What became of a delete."""

    CANCELLED = "cancelled"
    DELETED = "deleted"
    PURGED = "purged"
    NOT_FOUND = "not_found"


class DeleteAnswer(Answer):
    """What went, or would go."""

    status: DeleteStatus
    ids: list[str]
    restorable_until: str | None = None
    notes: list[Note] = []


class ReviveAnswer(Answer):
    """What came back from the trash."""

    ids: list[str]
    not_found: list[str]
    notes: list[Note] = []


class RequeueAnswer(Answer):
    """How many memories are tried anew."""

    requeued: int


class ModelStatus(Answer):
    """The embedding model in use and how far its vectors are."""

    fingerprint: str | None
    state: str
    reason: str | None = None


class Pause(Answer):
    """A service whose daily quota is used up."""

    service: str
    until: str


class SyncFailure(Answer):
    """Why the last round of replication failed."""

    code: str
    message: str
    mend: str
    at: str
    since: str
    """When it began: rounds have failed, for one reason or another, ever since."""


class SpacesLeft(Answer):
    """Spaces that have left this device because its token reaches them no more."""

    spaces: list[str]
    backup: str
    """The file that keeps them, with all that had not been sent."""
    at: str


class SyncInfo(Answer):
    """How replication with the edge stands."""

    linked: bool
    url: str | None
    queue: int
    """Cells that wait to be pushed, counted up to 20,000."""
    lag_s: float | None
    """Age of the oldest of them; None where there is no link."""
    not_shared: int
    """Cells in spaces that the device may not write to at the edge: they stay here. Counted up to 20,000."""
    last_success: str | None
    quarantine: int
    """Cells that the edge would not take."""
    refused: dict[str, int]
    """The same by the reason's code."""
    skipped: int
    """Cells of the edge that this version can't read."""
    failure: SyncFailure | None
    """None when the last round went well."""
    left: list[SpacesLeft]
    """Until somebody has seen it."""


class StatsAnswer(Answer):
    """Counts and health of what the caller may read."""

    total: int
    by_type: dict[str, int]
    by_kind: dict[str, int]
    live: int
    archived: int
    trashed: int
    pending_embeddings: int
    model: ModelStatus
    database_bytes: int | None
    """Size of the whole database; None for who may not read every space."""
    spaces: dict[str, int]
    failed_embeddings: int = 0
    """Memories that the model refused again and again, counted up to 10,000, at the edge 1,000."""
    dead_letters: int = 0
    """Messages of the queue that could not be delivered since they were last sent again."""
    paused: Pause | None = None
    sync: SyncInfo | None = None
    """Replication of a laptop; None at the edge, and for who may not read every space."""
    degraded: list[Note]
