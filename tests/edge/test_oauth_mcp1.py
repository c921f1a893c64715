"""The MCP SDK 1.x lets itself in: the 2025 era, as many apps still speak it."""

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.edge.edge import Edge
from tests.edge.owner import Owner
from tests.outside.rig import mcp1_python

SCRIPT: Final = Path(__file__).with_name("client_oauth_mcp1.py")
END_S: Final = 30.0


def test_it_registers_is_let_in_stores_and_finds(edge: Edge):
    command = [mcp1_python(), str(SCRIPT), f"{edge.rig.url}/mcp"]
    with (
        Owner(edge.rig.url) as owner,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        sent_back = owner.lets_in(json.loads(process.stdout.readline())["open"])
        assert sent_back.startswith("http://localhost:8123/callback?")
        output, _ = process.communicate(sent_back + "\n", timeout=END_S)
    assert process.returncode == 0
    seen = json.loads(output)
    assert seen["version"] == "2025-11-25"
    assert "memory_store" in seen["tools"]
    assert [row["id"] for row in seen["found"]["results"]] == [seen["stored"]["id"]]
    assert seen["requests"][:4] == [
        "POST /mcp 401",
        "GET /.well-known/oauth-protected-resource/mcp 200",
        "GET /.well-known/oauth-authorization-server 200",
        "POST /register 201",
    ]
    assert edge.rows("select client, action from write_log") == [("SDK 1 app", "store")]
