"""What the fixtures' answers are made of: blocks of content, questions to the client, and state that it carries."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

Answers = dict[str, Any]
"""What the client has said to earlier questions, by their names."""

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/q842iQAAAABJRU5ErkJggg=="
"""One red pixel."""
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
"""No sound at all, 8 kHz."""
STATE_KEY: Final = b"a key that only tests know"


def said(*blocks: types.ContentBlock | str, is_error: bool = False) -> types.CallToolResult:
    """Return a tool's answer."""
    content = [types.TextContent(text=block) if isinstance(block, str) else block for block in blocks]
    return types.CallToolResult(content=content, is_error=is_error)


def text_resource(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    """Return a resource inside an answer."""
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def elicit(message: str, **properties: Any) -> dict[str, Any]:
    """Return a question to the person."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(prompt: str, max_tokens: int) -> dict[str, Any]:
    """Return a question to the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


ROOTS: Final = {"method": "roots/list", "params": {}}
NAME: Final = elicit("What is your name?", name={"type": "string"})


def ask(questions: Mapping[str, Any], state: str | None = None) -> types.InputRequiredResult:
    """Return the questions to answer before the call is made again."""
    told = {"resultType": "input_required", "inputRequests": dict(questions)}
    return types.InputRequiredResult.model_validate({**told, **({} if state is None else {"requestState": state})})


def sealed(state: str) -> str:
    """Return a state that the client can carry but not change."""
    return f"{state}.{hmac.new(STATE_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unsealed(carried: str | None) -> str:
    """Return the state that came back."""
    state = (carried or "").partition(".")[0]
    if not hmac.compare_digest(sealed(state), carried or ""):
        raise MCPError(types.INVALID_PARAMS, "The request state has been changed.")
    return state


def answers(params: types.InputResponseRequestParams, *names: str) -> Answers | None:
    """Return what the client answered to all these questions, None when one is still open."""
    given = {name: value.model_dump(by_alias=True) for name, value in (params.input_responses or {}).items()}
    return given if all(_answered(given.get(name)) for name in names) else None


def _answered(answer: Mapping[str, Any] | None) -> bool:
    if answer is None:
        return False
    return bool(answer.get("content")) if "action" in answer else True
