"""Which edge a database was linked to, from outside of it: also where the database is gone. Light to import."""

import json
from typing import cast

from shoal.local.sync.files import SyncFiles


def known_url(files: SyncFiles) -> str | None:
    """Return the URL of the edge that the link is to; None where there is no link, or none that can be read."""
    try:
        found = json.loads(files.link.read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return cast("str", found) if isinstance(found, str) else None
