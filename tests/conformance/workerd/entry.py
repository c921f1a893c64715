"""Does with D1, through the edge's driver, what a test asks for: `(method, arguments)` as Python source."""

from typing import Any

from workers import Request, Response, WorkerEntrypoint

from shoal.worker.budget import Budget
from shoal.worker.d1 import D1Database


class Default(WorkerEntrypoint):
    """Answers as Python source too: 200 with what the driver returned, 500 with `(class, text)` of what it raised."""

    async def fetch(self, request: Request) -> Response:
        database = D1Database(self.env.DB, lambda: 0, Budget())
        # The test's own: it needs values that no other form can carry.
        method, arguments = eval(await request.text())
        try:
            return Response(repr(plain(await getattr(database, method)(*arguments))))
        except Exception as error:
            return Response(repr((type(error).__name__, str(error))), status=500)


def plain(answer: Any) -> Any:
    """Return the answer in Python's own types."""
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    return dict(answer) if isinstance(answer, dict) else answer
