"""What known apps send when they connect by OAuth, as data. app_shapes.py replays it.

The apps can't be run here. Each record is made of what their makers document and of what people have reported of real
connections: the reports are named where a fact is theirs. Ports, ids and states are examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_BOTH: Final = ["authorization_code", "refresh_token"]
_LONG_STATE: Final = "eyJzdGF0ZSI6" * 256
"""3 KiB."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One way in which an app connects."""

    title: str
    version: str
    """Of MCP."""
    looks_at: tuple[str, ...]
    """Where it looks for metadata after the 401, in its order."""
    redirect_uri: str
    probes: str = ""
    """An HTTP method with which it first tries the address."""
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the client, by whose URL it is known; a shape without one registers itself."""
    document_status: int = 200
    """How its site answers a server that fetches the document."""
    registration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    registers: int = 1
    """How often it registers for one connection."""
    scope: str = "memory:read memory:write"
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else it adds to the authorization request."""
    state: str = "state-of-the-app"


@dataclass(frozen=True)
class App:
    """An app, and what to tell the people who use it."""

    name: str
    click: str
    check: str
    shapes: tuple[Shape, ...]


_CLAUDE_DOCUMENT: Final = {
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
    "grant_types": [*_BOTH, "urn:ietf:params:oauth:grant-type:jwt-bearer"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
_CLAUDE_REGISTRATION: Final = {
    "client_name": "Claude",
    "redirect_uris": ["https://claude.com/api/mcp/auth_callback"],
    "grant_types": _BOTH,
    "response_types": ["code"],
    "token_endpoint_auth_method": "client_secret_post",
}
# anthropics/claude-ai-mcp: order and version of its look-ups (764), scope and prompt (96), the secret that it wants
# (1043), two registrations for one connection (966), a document that could not be had (96).
CLAUDE: Final = App(
    "Claude, web and desktop",
    "*Settings*, *Connectors*, *Add custom connector*, paste the address, *Add*, then *Connect*. Leave client id and"
    " secret empty.",
    "Where the page says that the app's document can't be had, Claude's site has refused the Worker's fetch: try again"
    " in a minute, or choose that Claude registers a client id automatically. Claude calls from its maker's machines,"
    " so the address must be reachable from the internet.",
    (
        Shape(
            title="known by its document",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="https://claude.ai/api/mcp/auth_callback",
            document=_CLAUDE_DOCUMENT,
            scope="memory:read memory:write offline_access",
            more={"prompt": "consent"},
        ),
        Shape(
            title="registering itself, after its document could not be had",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="https://claude.com/api/mcp/auth_callback",
            document=_CLAUDE_DOCUMENT,
            document_status=403,
            registration=_CLAUDE_REGISTRATION,
            registers=2,
        ),
    ),
)

_CODE_DOCUMENT: Final = {
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": _BOTH,
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
# anthropics/claude-code: its document and its ports (37767, 64705).
CLAUDE_CODE: Final = App(
    "Claude Code",
    "`claude mcp add --transport http shoal https://YOUR-HOST/mcp`, then `/mcp` in a session, *shoal*, *Authenticate*.",
    "The browser comes back to a port on the machine where Claude Code runs: over SSH, open the printed address there"
    " or forward the port (`--callback-port` fixes it).",
    (
        Shape(
            title="known by its document",
            version="2026-07-28",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="http://localhost:58969/callback",
            document=_CODE_DOCUMENT,
        ),
        Shape(
            title="registering itself, with an older protocol",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="http://127.0.0.1:52163/callback",
            registration={
                "client_name": "Claude Code (shoal)",
                "redirect_uris": ["http://127.0.0.1:52163/callback"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
        ),
    ),
)

# OpenAI's documentation of plugins (auth, and its change log of 2026-08): a stable document and redirect where the
# server sends `iss`, else one of each connector. jazzband/django-oauth-toolkit 1857: the document prefers a key.
# adcontextprotocol/adcp 1081: it looks for the server's metadata below the resource's path.
CHATGPT: Final = App(
    "ChatGPT",
    "*Settings*, *Apps*, *Advanced settings*, turn on *Developer mode*; then *Create*, paste the address,"
    " authentication *OAuth*.",
    "Writing tools are only offered in developer mode, and may need a plan that has them. ChatGPT calls from its"
    " maker's machines, so the address must be reachable from the internet.",
    (
        Shape(
            title="known by its document",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", f"{_SERVER}/mcp", _SERVER, _OPENID),
            redirect_uri="https://chatgpt.com/connector_platform_oauth_redirect",
            document={
                "client_id": "https://chatgpt.com/oauth/client.json",
                "client_name": "ChatGPT",
                "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "private_key_jwt",
                "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
                "token_endpoint_auth_signing_alg": "RS256",
                "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
            },
        ),
        Shape(
            title="registering itself",
            version="2025-11-25",
            looks_at=(_RESOURCE, f"{_SERVER}/mcp", _OPENID),
            redirect_uri="https://chatgpt.com/connector/oauth/OUbdUMlL15Ct",
            registration={
                "client_name": "ChatGPT",
                "redirect_uris": ["https://chatgpt.com/connector/oauth/OUbdUMlL15Ct"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
        ),
    ),
)

_CURSOR_REGISTRATION: Final = {
    "client_name": "Cursor",
    "redirect_uris": [
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ],
    "grant_types": _BOTH,
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


def _cursor(title: str, redirect_uri: str) -> Shape:
    return Shape(
        title=title,
        version="2025-11-25",
        looks_at=(f"{_RESOURCE}/mcp", _SERVER),
        redirect_uri=redirect_uri,
        registration=_CURSOR_REGISTRATION,
    )


# erp-mafia/accounted 2225, bytebase/bytebase 20510, makeplane/plane-mcp-server 159: one registration, three redirects.
CURSOR: Final = App(
    "Cursor",
    '`{"mcpServers": {"shoal": {"url": "https://YOUR-HOST/mcp"}}}` in `~/.cursor/mcp.json`, then *Settings*, *Tools &'
    " MCP*, *Connect*.",
    "The last page has a button that opens Cursor: press it where the browser doesn't ask. Cloud agents come back to"
    " cursor.com instead.",
    (
        _cursor("opened by the browser", "cursor://anysphere.cursor-mcp/oauth/callback"),
        _cursor("listening on this machine", "http://localhost:8787/callback"),
        _cursor("cloud agents", "https://www.cursor.com/agents/mcp/oauth/callback"),
    ),
)

# openai/codex 30460 (redirect with an id behind it) and 25026 (where it looks). Its document: chatgpt.com/oauth/codex.
CODEX: Final = App(
    "Codex",
    '`codex mcp add shoal --url https://YOUR-HOST/mcp`, or `[mcp_servers.shoal]` with `url = "https://YOUR-HOST/mcp"`'
    " in `~/.codex/config.toml`; then `codex mcp login shoal`.",
    "`codex mcp login shoal` again gives new tokens. Over SSH, forward the port of `mcp_oauth_callback_port`.",
    (
        Shape(
            title="registering itself",
            version="2025-06-18",
            looks_at=(f"{_RESOURCE}/mcp", f"{_SERVER}/mcp", _SERVER),
            redirect_uri="http://127.0.0.1:63546/callback/6MFBM1In3Ey-",
            registration={
                "client_name": "Codex",
                "redirect_uris": ["http://127.0.0.1:63546/callback/6MFBM1In3Ey-"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
        ),
        Shape(
            title="known by its document",
            version="2025-06-18",
            looks_at=(f"{_RESOURCE}/mcp", f"{_SERVER}/mcp", _SERVER),
            redirect_uri="http://127.0.0.1:57463/callback",
            document={
                "client_id": "https://chatgpt.com/oauth/codex/client.json",
                "client_name": "Codex",
                "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
        ),
    ),
)

# microsoft/vscode 278512: what it registers, and the port that it takes when its own is taken. Its document:
# vscode.dev/oauth/client-metadata.json.
VS_CODE: Final = App(
    "VS Code",
    "*MCP: Add Server* in the command palette, *HTTP*, paste the address, then *Allow* when it wants to authenticate.",
    "When VS Code asks for a client id, it found no metadata: paste the address with `/mcp`. *Authentication: Remove"
    " Dynamic Authentication Providers* makes it register anew.",
    (
        Shape(
            title="known by its document",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="http://127.0.0.1:33418/",
            document={
                "client_id": "https://vscode.dev/oauth/client-metadata.json",
                "client_name": "Visual Studio Code",
                "client_uri": "https://vscode.dev/product",
                "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
                "grant_types": [*_BOTH, "urn:ietf:params:oauth:grant-type:device_code"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
            },
            state="gXVXo0/iMD8WMolDHKxSTg==",
        ),
        Shape(
            title="registering itself, on another port",
            version="2025-11-25",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="http://127.0.0.1:59656/",
            registration={
                "client_name": "Visual Studio Code",
                "client_uri": "https://code.visualstudio.com",
                "redirect_uris": [
                    "https://insiders.vscode.dev/redirect",
                    "https://vscode.dev/redirect",
                    "http://127.0.0.1/",
                    "http://127.0.0.1:33418/",
                ],
                "grant_types": [*_BOTH, "urn:ietf:params:oauth:grant-type:device_code"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
            },
            state="ey/lnTwSm9FUcQN/Qds==",
        ),
    ),
)

# google-gemini/gemini-cli 7465 (redirect); elsewhere its states of over 1,024 characters were refused.
GEMINI_CLI: Final = App(
    "Gemini CLI",
    '`{"mcpServers": {"shoal": {"httpUrl": "https://YOUR-HOST/mcp"}}}` in `~/.gemini/settings.json`, then `/mcp auth'
    " shoal`.",
    "`/mcp auth shoal` again gives new tokens.",
    (
        Shape(
            title="registering itself",
            version="2025-11-25",
            probes="HEAD",
            looks_at=(f"{_RESOURCE}/mcp", _SERVER),
            redirect_uri="http://localhost:7777/oauth/callback",
            registration={
                "client_name": "Gemini CLI MCP Client",
                "redirect_uris": ["http://localhost:7777/oauth/callback"],
                "grant_types": _BOTH,
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "scope": "",
            },
            state=_LONG_STATE,
        ),
    ),
)

APPS: Final = (CLAUDE, CLAUDE_CODE, CHATGPT, CURSOR, CODEX, VS_CODE, GEMINI_CLI)
