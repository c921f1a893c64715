"""The tests of other folders, on the real Worker: what they ask of the service must hold here too."""

from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any

import httpx
from tests.edge.edge import PLAIN, Edge

Test = Callable[..., Any]


def borrowed(module: ModuleType, without: Mapping[str, str]) -> dict[str, Test]:
    """Return the tests of a module but those left out, each of which has a reason."""
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    unknown = without.keys() - tests.keys()
    assert not unknown, f"{module.__name__} has no {', '.join(sorted(unknown))}"
    return {name: test for name, test in tests.items() if name not in without}


def forwarding(edge: Edge, **more: str) -> Callable[..., Awaitable[None]]:
    """Return an ASGI app that sends each request to the Worker, with the token and other headers where it has none."""
    always = {"authorization": edge.http.headers["authorization"], **more}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        headers = [(name, value) for name, value in scope["headers"] if name != b"transfer-encoding"]
        given = {name for name, _ in headers}
        headers += [(name.encode(), value.encode()) for name, value in always.items() if name.encode() not in given]
        query = scope["query_string"].decode("latin-1")
        url = httpx.URL(edge.rig.url).copy_with(
            raw_path=(scope["raw_path"].decode() + (query and f"?{query}")).encode()
        )
        request = httpx.Request(scope["method"], url, headers=headers, content=await body_of(receive))
        async with httpx.AsyncClient(**PLAIN) as client:
            answer = await client.send(request)
        told = [(name, value) for name, value in answer.headers.raw if name.lower() not in HOP_BY_HOP]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": told})
        await send({"type": "http.response.body", "body": answer.content})

    return app


HOP_BY_HOP = frozenset({b"transfer-encoding", b"content-encoding", b"connection", b"keep-alive"})


async def body_of(receive: Any) -> bytes:
    """Return a request's whole body."""
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message.get("more_body"):
            return body
