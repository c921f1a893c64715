"""What must hold of every answer, whatever was asked."""

import json
from typing import Any, Final

import httpx
from tests.fuzz.place import MARKER
from tests.fuzz.requests import Asked

HANG_S: Final = 20.0
"""An answer that takes longer doesn't come."""


class Breach(AssertionError):
    """An answer that may not be; the message has the request and the answer."""

    def __init__(self, rule: str, asked: Asked, answer: httpx.Response | None = None) -> None:
        told = "" if answer is None else f"\nanswer: {answer.status_code} {dict(answer.headers)}\n{answer.text[:2000]}"
        super().__init__(f"{rule}\nrequest: {asked}{told}")


def send(http: httpx.Client, asked: Asked) -> httpx.Response:
    """Send one request and return its answer. Raises Breach when there is none, or it breaks a rule."""
    url = http.base_url.copy_with(raw_path=asked.target)
    headers = [(name.encode(), value.encode("latin-1")) for name, value in asked.headers]
    request = httpx.Request(asked.method, url, headers=headers, content=asked.body)
    try:
        answer = http.send(request)
    except httpx.HTTPError as error:
        raise Breach(f"no answer: {error!r}", asked) from error
    judge(asked, answer)
    return answer


def judge(asked: Asked, answer: httpx.Response) -> None:
    """Raise Breach unless an answer is one that anyone may get."""
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise Breach("a fault of the server", asked, answer)
    if MARKER.encode() in answer.content or MARKER in str(answer.headers):
        raise Breach("it tells what lies in a space that the token can't read", asked, answer)
    if asked.method == "HEAD" or (answer.is_success and not answer.content):
        return  # Headers may tell of a body that isn't sent; a notification of MCP has none.
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == "application/json":
        told = _json(asked, answer)
        if answer.is_client_error and not _explains(told):
            raise Breach("an error that doesn't say what was wrong", asked, answer)
    elif answer.is_client_error and answer.content and kind != "text/html":
        raise Breach("an error that is neither JSON nor a page", asked, answer)


def _json(asked: Asked, answer: httpx.Response) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError as error:
        raise Breach("a body that is no JSON, though it says so", asked, answer) from error


def _explains(told: Any) -> bool:
    """Say whether it is an error in one of the three shapes: ours, OAuth's (RFC 6749 section 5.2), JSON-RPC's."""
    if not isinstance(told, dict) or "error" not in told:
        return False
    error: Any = told["error"]
    if isinstance(error, str):
        return bool(error)
    return {"code", "message"} <= error.keys() and (told.get("jsonrpc") == "2.0" or "mend" in error)
