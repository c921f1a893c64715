"""The main job, shown over a real MCP client: store, then find by paraphrase and across languages.

`make run` starts the daemon, runs this, links it to an edge on this machine, shows a memory crossing each way, and goes
on serving; `make run ONCE=1` stops then. Memories go to SHOAL_HOME, or to `.shoal` in this checkout, so that a trial
leaves a person's own memory alone.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from bench.demo_edge import NoEdge, cross, edge_beside
from bench.harness import HEALTHY_WITHIN_S, SHOAL, Client

MEMORIES: Final = (
    ("The staging database moved to Postgres 16 last week; the old host is read-only.", "decision"),
    ("Alice is allergic to peanuts, so the team lunch must avoid satay.", "note"),
    ("To rotate the signing key: run `ops rotate-key`, then restart the gateway.", "runbook"),
    ("The nightly export fails when the disk is over 90% full.", "bug"),
    ("We chose SQLite over a server database because laptops must work offline.", "decision"),
    ("Bob prefers short written updates to meetings.", "preference_signal"),
    ("The landlord wants the rent on the third of each month.", "note"),
    ("用户喜欢深色模式，界面字体要大一些。", "preference_signal"),
    ("发布前必须先在测试环境跑一遍回归测试。", "best_practice"),
    ("小李下个月调到上海办公室负责支付项目。", "note"),
    ("支付接口超时的原因是连接池太小，已经调到五十。", "bug"),
    ("妈妈的生日是农历八月十五，记得提前买蛋糕。", "note"),
)
QUESTIONS: Final = (
    ("Which version of the DB does pre-production run?", 0),
    ("What food could make a colleague ill?", 1),
    ("How do I replace the key that signs tokens?", 2),
    ("Why did last night's backup job stop?", 3),
    ("what colour scheme does the user want", 7),
    ("why did payments take too long", 10),
    ("什么时候要交房租？", 6),
    ("同事对什么食物过敏？", 1),
    ("谁要去上海工作？", 9),
    ("上线之前要做什么？", 8),
)
_RANK_SHOWN: Final = 3
SCREEN_COLUMNS: Final = 100


async def show(url: str, headers: dict[str, str], console: Console) -> int:
    """Store and find through the MCP client; print a table; return how many questions found their memory."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        began = time.perf_counter()
        await client.call_tool("memory_find", {"query": "load the model"})
        ready_s = time.perf_counter() - began
        stored: list[str] = []
        took: list[float] = []
        for content, kind in MEMORIES:
            began = time.perf_counter()
            answer = await client.call_tool("memory_store", {"content": content, "type": kind, "revive": True})
            took.append(time.perf_counter() - began)
            stored.append(_content(answer)["id"])
        await client.call_tool("memory_store", {"content": MEMORIES[0][0], "wait": True})
        table = Table("question", "best answer", "score", "ms", title="shoal finds by meaning, in either language")
        found = 0
        for question, expected in QUESTIONS:
            began = time.perf_counter()
            answer = _content(await client.call_tool("memory_find", {"query": question, "n_results": _RANK_SHOWN}))
            milliseconds = (time.perf_counter() - began) * 1000
            best = answer["results"][0]
            right = best["id"] == stored[expected]
            found += right
            mark = "" if right else "  [yellow](not the expected one)[/]"
            table.add_row(question, best["snippet"] + mark, f"{best['score']:.2f}", f"{milliseconds:.0f}")
        console.print(table)
        took.sort()
        console.print(
            f"{len(MEMORIES)} memories stored, median {took[len(took) // 2] * 1000:.1f} ms through the MCP client;"
            f" {found} of {len(QUESTIONS)} questions had their memory first. Loading the model took"
            f" {ready_s:.1f} s, once."
        )
        return found


def _content(answer: Any) -> dict[str, Any]:
    if answer.is_error:
        raise RuntimeError(answer.content[0].text)
    return answer.structured_content


def start(home: Path) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start `shoal serve` and return it with what daemon.json says, once it is healthy."""
    run = home / "run" / "daemon.json"
    before = run.read_bytes() if run.exists() else b""
    daemon = subprocess.Popen([SHOAL, "serve"], env={**os.environ, "SHOAL_HOME": str(home)})
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while time.monotonic() < deadline:
        if daemon.poll() is not None:
            sys.exit(daemon.returncode)
        if run.exists() and run.read_bytes() != before:
            return daemon, json.loads(run.read_text())
        time.sleep(0.05)
    daemon.terminate()
    raise SystemExit(f"The daemon did not become healthy within {HEALTHY_WITHIN_S:.0f} s; see {home / 'logs'}.")


@click.command(help=__doc__)
@click.option("--once", is_flag=True, help="Stop after having shown all.")
def main(once: bool) -> None:
    """Start the daemon, show the main job, go on serving."""
    home = Path(os.environ.get("SHOAL_HOME") or ".shoal").resolve()
    console = Console(width=SCREEN_COLUMNS)
    daemon, info = start(home)
    try:
        url = f"http://127.0.0.1:{info['port']}/mcp"
        asyncio.run(show(url, {"Authorization": f"Bearer {info['token']}"}, console))
        with ExitStack() as stack:
            try:
                edge = stack.enter_context(edge_beside(home, console))
                cross(home, edge, Client(info["port"], info["token"]), console)
            except NoEdge as error:
                console.print(f"No edge was started, so nothing was exchanged with one: {error}")
            if once:
                return
            console.print(f"Serving at {url}. Stop with Ctrl-C.")
            console.print(f"This memory: {SHOAL} --home {home} list", soft_wrap=True)
            daemon.wait()
    except KeyboardInterrupt:
        console.print("Stopping.")
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()


if __name__ == "__main__":
    main()
