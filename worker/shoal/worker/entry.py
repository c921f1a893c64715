"""The Worker's entry: Cloudflare calls an instance of `Default` once an event."""

import json

from workers import Request, Response, WorkerEntrypoint

from shoal.schema.errors import NotConfigured


class Default(WorkerEntrypoint):
    """Refuses everyone until there is something to serve."""

    async def fetch(self, request: Request) -> Response:
        """Answer 503, whatever is asked."""
        error = NotConfigured("This Worker serves nothing yet.", "Deploy a release of shoal that does.")
        return Response(json.dumps(error.as_dict()), error.status, headers={"content-type": "application/json"})
