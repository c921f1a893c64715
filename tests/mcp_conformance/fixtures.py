"""The tools, resources and prompts that the conformance suite expects of a server, by the names it calls them.

They stand in the place of a memory's: only the transport, the shell and the gate around them are the product's. What
each must do is described in the suite itself (`conformance list --server`, the scenarios' descriptions).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from tests.mcp_conformance.parts import (
    NAME,
    PNG,
    ROOTS,
    WAV,
    answers,
    ask,
    elicit,
    said,
    sample,
    sealed,
    text_resource,
    unsealed,
)

Context = ServerRequestContext[Any, Any]
ToolResult = types.CallToolResult | types.InputRequiredResult

_TTL_MS: Final = 60_000

NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
WIDE_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""The suite compares what is listed with exactly this."""
MIRRORED_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
    "required": ["query"],
}
"""An argument that clients repeat in a header, for proxies to route by."""


# Tools

Call = Callable[[Context, types.CallToolRequestParams], Awaitable[ToolResult]]
_tools: Final[dict[str, tuple[Call, dict[str, Any]]]] = {}


def tool(schema: Mapping[str, Any] = NO_ARGUMENTS, name: str = "") -> Callable[[Call], Call]:
    """Register a tool under its function's name."""

    def register(call: Call) -> Call:
        _tools[name or call.__name__] = (call, dict(schema))
        return call

    return register


@tool()
async def test_simple_text(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return said("This is a simple text response for testing.")


@tool()
async def test_image_content(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return said(types.ImageContent(data=PNG, mime_type="image/png"))


@tool()
async def test_audio_content(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return said(types.AudioContent(data=WAV, mime_type="audio/wav"))


@tool()
async def test_embedded_resource(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return said(text_resource("test://embedded-resource", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    image = types.ImageContent(data=PNG, mime_type="image/png")
    mixed = text_resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return said("Multiple content types test:", image, mixed)


@tool()
async def test_error_handling(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return said("This tool intentionally returns an error for testing", is_error=True)


@tool(WIDE_SCHEMA, "json_schema_2020_12_tool")
async def wide_schema(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    return said(json.dumps(params.arguments))


@tool(MIRRORED_SCHEMA)
async def test_mirrored_argument(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    return said(json.dumps(params.arguments))


# What follows up to the questions of 2026-07-28 needs a way back to the client. The expected failures say why there is
# none; the tools are here all the same, so that the suite tells when there is one.


@tool()
async def test_tool_with_logging(ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        told = types.LoggingMessageNotificationParams(level="info", data=line)
        await ctx.session.send_notification(types.LoggingMessageNotification(params=told), ctx.request_id)
    return said("done")


# On 2026-07-28 the suite calls it by another name, to see that nothing is logged to those who didn't ask.
_tools["test_logging_tool"] = (test_tool_with_logging, NO_ARGUMENTS)


@tool()
async def test_tool_with_progress(ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, 100)
    return said("done")


async def _needs_sampling(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    asked = types.SamplingMessage(role="user", content=types.TextContent(text=(params.arguments or {})["prompt"]))
    result = await ctx.session.send_request(
        types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[asked], max_tokens=100)),
        types.CreateMessageResult,
    )
    return said(f"LLM response: {result.content}")


_PROMPTED: Final = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
_tools["test_sampling"] = (_needs_sampling, _PROMPTED)


def _eliciting(schema: dict[str, Any]) -> Call:
    async def call(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
        message = (params.arguments or {}).get("message", "Please answer")
        result = await ctx.session.elicit_form(message, {"type": "object", "properties": schema})
        return said(f"action={result.action}, content={json.dumps(result.content)}")

    return call


_MESSAGE: Final = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
_tools["test_elicitation"] = (_eliciting({"username": {"type": "string"}, "email": {"type": "string"}}), _MESSAGE)
_tools["test_elicitation_sep1034_defaults"] = (_eliciting({"name": {"type": "string", "default": "J"}}), NO_ARGUMENTS)
_tools["test_elicitation_sep1330_enums"] = (_eliciting({"one": {"type": "string", "enum": ["a", "b"]}}), NO_ARGUMENTS)


@tool()
async def test_missing_capability(ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    wanted = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(wanted):
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
        told = data.model_dump(by_alias=True, exclude_none=True)
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Your client must offer sampling.", told)
    return said("done")


@tool()
async def test_streaming_elicitation(_ctx: Context, _params: types.CallToolRequestParams) -> ToolResult:
    return ask({"user_name": NAME})


@tool()
async def test_input_required_result_elicitation(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    given = answers(params, "user_name")
    return ask({"user_name": NAME}) if given is None else said(f"Hello, {given['user_name']['content'].get('name')}!")


@tool()
async def test_input_required_result_sampling(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    given = answers(params, "capital_question")
    if given is None:
        return ask({"capital_question": sample("What is the capital of France?", 100)})
    return said(f"The model says: {given['capital_question']['content']}")


@tool()
async def test_input_required_result_list_roots(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    given = answers(params, "client_roots")
    return ask({"client_roots": ROOTS}) if given is None else said(f"The roots are {given['client_roots']['roots']}")


@tool()
async def test_input_required_result_request_state(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    if answers(params, "confirm") is None:
        return ask({"confirm": elicit("Please confirm", ok={"type": "boolean"})}, sealed("asked"))
    return said(f"state-ok: {unsealed(params.request_state)}")


@tool()
async def test_input_required_result_tampered_state(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    if params.request_state is None:
        return ask({"confirm": elicit("Please confirm", ok={"type": "boolean"})}, sealed("asked"))
    return said(f"state-ok: {unsealed(params.request_state)}")


@tool()
async def test_input_required_result_multiple_inputs(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    questions = {"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}
    if answers(params, *questions) is None:
        return ask(questions, sealed("asked"))
    return said(f"All answered, {unsealed(params.request_state)}")


@tool()
async def test_input_required_result_multi_round(_ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    if params.request_state is None:
        return ask({"step1": elicit("Step 1: What is your name?", name={"type": "string"})}, sealed("round-1"))
    if unsealed(params.request_state) == "round-1":
        colour = elicit("Step 2: What is your favorite color?", color={"type": "string"})
        return ask({"step2": colour}, sealed("round-2"))
    return said("All rounds are done.")


@tool()
async def test_input_required_result_capabilities(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    offered = ctx.session.client_capabilities or types.ClientCapabilities()
    questions: dict[str, Any] = {}
    if offered.sampling is not None:
        questions["greeting"] = sample("Generate a greeting", 50)
    if offered.elicitation is not None:
        questions["user_name"] = NAME
    return ask(questions) if questions and answers(params, *questions) is None else said("done")


# Resources

STATIC_TEXT: Final = "test://static-text"
STATIC_BINARY: Final = "test://static-binary"
WATCHED: Final = "test://watched-resource"
TEMPLATE_START, TEMPLATE_END = "test://template/", "/data"


def contents(uri: str) -> types.TextResourceContents | types.BlobResourceContents | None:
    """Return a resource's contents."""
    if uri in (STATIC_TEXT, WATCHED):
        text = "This is the content of the static text resource."
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    if uri == STATIC_BINARY:
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri.startswith(TEMPLATE_START) and uri.endswith(TEMPLATE_END):
        wanted = uri.removeprefix(TEMPLATE_START).removesuffix(TEMPLATE_END)
        text = json.dumps({"id": wanted, "templateTest": True, "data": f"Data for ID: {wanted}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    return None


# Prompts

_ARG1, _ARG2 = (types.PromptArgument(name=name, description="A word", required=True) for name in ("arg1", "arg2"))
PROMPTS: Final = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": [_ARG1, _ARG2],
    "test_prompt_with_embedded_resource": [types.PromptArgument(name="resourceUri", description="URI", required=True)],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    """Return a prompt, filled in."""
    given = params.arguments or {}
    parts: list[types.ContentBlock | str]
    match params.name:
        case "test_simple_prompt":
            parts = ["This is a simple prompt for testing."]
        case "test_prompt_with_arguments":
            parts = [f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"]
        case "test_prompt_with_embedded_resource":
            embedded = text_resource(given["resourceUri"], "Embedded resource content for testing.")
            parts = [embedded, "Please process the embedded resource above."]
        case "test_prompt_with_image":
            parts = [types.ImageContent(data=PNG, mime_type="image/png"), "Please analyze the image above."]
        case "test_input_required_result_prompt":
            said_so = answers(params, "user_context")
            if said_so is None:
                context = elicit("What context should the prompt use?", context={"type": "string"})
                return ask({"user_context": context})
            parts = [f"Use this context: {said_so['user_context']['content']}"]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name!a}")
    blocks = [types.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


def server() -> Server[Any]:
    """Return the MCP server of all this."""

    async def list_tools(_ctx: Context, _params: object) -> types.ListToolsResult:
        listed = [
            types.Tool(name=name, description=f"Does what {name} must.", input_schema=schema)
            for name, (_, schema) in _tools.items()
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
        if params.name not in _tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!a}")
        call, _ = _tools[params.name]
        return await call(ctx, params)

    async def list_resources(_ctx: Context, _params: object) -> types.ListResourcesResult:
        uris = (STATIC_TEXT, STATIC_BINARY, WATCHED)
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=uri, description="Always the same.") for uri in uris]
        )

    async def list_templates(_ctx: Context, _params: object) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template=f"{TEMPLATE_START}{{id}}{TEMPLATE_END}", name="template")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(_ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        found = contents(str(params.uri))
        if found is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": str(params.uri)})
        return types.ReadResourceResult(contents=[found])

    async def list_prompts(_ctx: Context, _params: object) -> types.ListPromptsResult:
        listed = [types.Prompt(name=name, description="A prompt", arguments=args) for name, args in PROMPTS.items()]
        return types.ListPromptsResult(prompts=listed)

    async def get_prompt(
        _ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        return prompt(params)

    async def complete(_ctx: Context, _params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))

    def schema_of(name: str) -> Mapping[str, Any] | None:
        return _tools[name][1] if name in _tools else None

    hint = CacheHint(ttl_ms=_TTL_MS, scope="private")
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    return Server(
        "fixtures",
        version="1",
        cache_hints=dict.fromkeys(lists, hint),
        get_tool_input_schema=schema_of,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
