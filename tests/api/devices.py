"""A device as an edge sees it: cells of memories, and the requests that carry them."""

import gzip
import json
from collections.abc import Sequence
from typing import Any

from shoal.core.drafts import draft
from shoal.schema.migrations import NEWEST
from shoal.schema.models import StoreItem
from shoal.schema.ontology import Ontology
from shoal.schema.sql import Mode
from shoal.schema.wire import PROTO

ONTOLOGY = Ontology.builtin()
GZIPPED = {"content-type": "application/json", "content-encoding": "gzip"}


class Device:
    """Stamps cells as a laptop does, one after the other."""

    def __init__(self, now_ms: int, name: str = "0a0b0c0d") -> None:
        self.name = name
        self._now_ms = now_ms
        self._stamp = now_ms * 65_536

    def stamp(self, ahead_ms: int = 0) -> str:
        self._stamp += 1
        return f"{self._stamp + ahead_ms * 65_536:019d}-{self.name}"

    def cell(self, record_id: str, field: str, value: Any, rank: int = 1, space: str = "main") -> list[Any]:
        return [record_id, space, field, rank, self.stamp(), value]

    def memory(self, content: str, space: str = "main", **fields: Any) -> list[list[Any]]:
        """Return the cells of a new memory, its `init` first."""
        item = StoreItem(content=content, **fields)
        local = draft(item, space, ONTOLOGY, self._now_ms, "UTC").cells(Mode.STORE)
        return [self.cell(cell.id, cell.field, cell.value, space=space) for cell in local]

    def says(self, **more: Any) -> dict[str, Any]:
        """Return a request."""
        return {"proto": PROTO, "schema_version": NEWEST, "device": self.name, **more}

    def pushes(self, cells: Sequence[Any], **more: Any) -> dict[str, Any]:
        return self.says(cells=list(cells), **more)

    def pulls(self, spaces: object = "*", cursor: int = 0, batch: str | None = None, **more: Any) -> dict[str, Any]:
        return self.says(spaces=spaces, cursor=cursor, batch=batch, **more)


def packed(request: object) -> bytes:
    """Return a request as devices send it."""
    return gzip.compress(json.dumps(request, ensure_ascii=False).encode(), mtime=0)
