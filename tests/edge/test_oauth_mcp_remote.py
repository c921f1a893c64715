"""mcp-remote, by which apps that only start commands reach an address: run whole, as such an app starts it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
from tests.edge.edge import COFFEE, PLAIN, Edge
from tests.edge.owner import Owner
from tests.local.processes import eventually
from tests.outside.rig import TOOLS, node, tool
from tests.outside.wires import message

COMMAND: Final = TOOLS / "node" / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
VERSION: Final = "2025-11-25"
URL: Final = re.compile(r"^(https?://\S+/authorize\?\S+)\n", re.MULTILINE)
END_S: Final = 15.0


def started(url: str, folder: Path) -> subprocess.Popen[str]:
    """Start it, where no browser is to be found; what it tells people goes to a file."""
    # Plain http is for the machine of the tests; the address of an edge begins with https.
    command = [node(), tool(COMMAND), f"{url}/mcp", "--allow-http"]
    environment = {"PATH": "", "HOME": str(folder), "MCP_REMOTE_CONFIG_DIR": str(folder / "kept")}
    with (folder / "told.txt").open("w") as told:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True
        )


def ask(process: subprocess.Popen[str], number: int, method: str, **params: Any) -> dict[str, Any]:
    """Return the answer to a request over stdio."""
    tell(process, method, number, **params)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())["result"]


def tell(process: subprocess.Popen[str], method: str, number: int | None = None, **params: Any) -> None:
    """Send a message over stdio."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(message(VERSION, method, params, number)) + "\n")
    process.stdin.flush()


def test_it_is_let_in_and_carries_calls(edge: Edge, tmp_path: Path):
    told = tmp_path / "told.txt"
    with Owner(edge.rig.url) as owner, started(edge.rig.url, tmp_path) as process:
        try:
            eventually(lambda: URL.search(told.read_text()), "the address that a person shall open")
            (opened,) = URL.findall(told.read_text())
            httpx.get(owner.lets_in(opened), **PLAIN).raise_for_status()
            client = {"name": "app", "version": "1"}
            hello = ask(process, 1, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo=client)
            assert hello["serverInfo"]["name"] == "shoal"
            tell(process, "notifications/initialized")
            stored = ask(process, 2, "tools/call", name="memory_store", arguments={"content": COFFEE})
            assert stored["structuredContent"]["status"] == "created"
            process.communicate(timeout=END_S)
        finally:
            process.kill()
    assert owner.scopes_asked() == ["memory:read memory:write"]
    assert len(edge.find("coffee machine")) == 1
