"""`shoal link` and `shoal unlink`, as people and programs call them."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import click.testing
import pytest
from tests.local.processes import Processes
from tests.local.sync.owner import EVERYTHING, decides, device_token
from tests.local.sync.rig import LocalEdge

from shoal.local.cli.group import shoal
from shoal.local.home import Home
from shoal.local.sync import vault
from shoal.local.sync.files import SyncFiles


def run(*arguments: str, stdin: str | None = None) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(shoal, arguments, input=stdin)
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def token(edge: LocalEdge, home: Home) -> str:
    return device_token(edge)


def test_a_device_token_comes_by_stdin_and_people_are_told_what_comes_next(edge: LocalEdge, token: str):
    linked = run("link", f"{edge.url}/mcp", "--token-stdin", stdin=f"{token}\n")
    assert linked.exit_code == 0, linked.output
    assert f"Linked to {edge.url}." in linked.stdout
    assert "It shares: main. This device may write to: main." in linked.stdout
    assert "no keyring" in linked.stdout
    assert "shoal sync" in linked.stdout
    assert linked.stderr == ""
    assert token not in linked.output


def test_a_token_among_the_arguments_is_taken_with_a_warning(edge: LocalEdge, token: str):
    linked = run("link", edge.url, "--token", token)
    assert linked.exit_code == 0, linked.output
    assert "list of processes" in linked.stderr
    assert token not in linked.output


def test_programs_get_json(edge: LocalEdge, token: str):
    linked = run("link", edge.url, "--token-stdin", "--json", stdin=token)
    assert json.loads(linked.stdout) == {
        "url": edge.url,
        "spaces": ["main"],
        "writable": ["main"],
        "token_in": "file",
        "before": None,
        "lost": [],
        "daemon": False,
    }
    ended = run("unlink", "--yes", "--json")
    told = json.loads(ended.stdout)
    assert (told["url"], told["revoked"]) == (edge.url, False)
    assert f"{edge.url}/account" in told["error"]["mend"]
    again = run("unlink", "--yes", "--json")
    assert again.exit_code == 1
    assert json.loads(again.stderr)["error"]["code"] == "not_linked"


@pytest.mark.parametrize("given", ["", "hello", "ABCD-EFGH", f"shoal_a_{'x' * 43}", f"shoal_d_{'x' * 42}"])
def test_what_is_no_device_token_is_not_sent(edge: LocalEdge, home: Home, given: str):
    refused = run("link", edge.url, "--token-stdin", stdin=f"{given}\n")
    assert refused.exit_code == 1
    assert f"{edge.url}/account" in refused.stderr
    assert edge.asked == []


@pytest.mark.parametrize(
    "options",
    [
        ("--token", "x", "--token-stdin"),
        ("--token", "x", "--no-browser"),
        ("--token-stdin", "--name", "x"),
        ("--token-stdin", "--no-browser"),
    ],
)
def test_options_that_contradict_each_other_are_refused(home: Home, options: tuple[str, ...]):
    assert run("link", "https://shoal.example", *options).exit_code == 2


def test_an_address_without_tls_is_refused(home: Home):
    refused = run("link", "http://shoal.example")
    assert (refused.exit_code, "https://" in refused.stderr) == (1, True)


def test_the_edge_of_before_is_named_and_its_token_if_it_is_still_good(edge: LocalEdge, token: str):
    run("link", edge.url, "--token-stdin", stdin=token)
    other = LocalEdge()
    with other:
        linked = run("link", other.url, "--token-stdin", stdin=device_token(other))
    assert f"It was linked to {edge.url} before" in linked.stdout
    assert f"{edge.url}/account" in linked.stderr


def test_an_end_asks_first_and_needs_someone_to_ask(
    edge: LocalEdge, token: str, files: SyncFiles, monkeypatch: pytest.MonkeyPatch
):
    run("link", edge.url, "--token-stdin", stdin=token)
    refused = run("unlink")
    assert (refused.exit_code, "--yes" in refused.stderr) == (1, True)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert "Nothing was changed." in run("unlink", stdin="n\n").stdout
    assert vault.read(files) is not None
    ended = run("unlink", stdin="y\n")
    assert f"No longer linked to {edge.url}" in ended.stdout
    assert "still good" in ended.stderr
    assert vault.read(files) is None


def test_it_speaks_chinese(edge: LocalEdge, token: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert f"已连接 {edge.url}。" in run("link", edge.url, "--token-stdin", stdin=token).stdout
    assert f"已断开 {edge.url}。" in run("unlink", "--yes").stdout


def test_each_says_how_it_is_used(home: Home):
    for command in ("link", "unlink"):
        told = run(command, "--help").stdout
        assert "Examples:" in told
        assert f"shoal {command}" in told


def test_a_browser_is_opened_on_this_machine_and_a_running_daemon_goes_on_by_itself(
    edge: LocalEdge, home: Home, processes: Processes, tmp_path: Path
):
    processes.daemon()
    scripted = tmp_path / "browser.py"
    scripted.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(Path(__file__).parents[3])!r})
            import httpx
            from tests.api.oauth.doubles import OWNER_KEY
            from tests.edge.oauth import Flow
            with Flow({edge.url!r}, OWNER_KEY) as flow:
                page = flow.past_sign_in(flow.browser.get(sys.argv[1]))
                answer = flow.decide(page, {EVERYTHING!r}, sync="1")
            httpx.get(answer.headers["location"], verify=False)
        """)
    )
    process = processes.start(
        "link", edge.url, "--name", "Ada's laptop", "--json",
        BROWSER=f"{sys.executable} {scripted} %s", PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    assert (told["url"], told["spaces"], told["token_in"], told["daemon"]) == (edge.url, "*", "file", True)
    assert f"{edge.url}/authorize?" in err.decode()
    assert "secret" not in err.decode()


@pytest.mark.parametrize("options", [("--no-browser",), ()])
def test_without_a_browser_the_address_that_it_ends_at_is_pasted(
    edge: LocalEdge, home: Home, processes: Processes, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    process = processes.start("link", edge.url, *options, PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
    assert process.stdin is not None
    assert process.stderr is not None
    address = ""
    while "/authorize?" not in address:
        address = process.stderr.readline().decode().strip()
    process.stdin.write(f"\n{address}\n{decides(edge, address)}\n".encode())
    process.stdin.flush()
    # Nobody closes a terminal either.
    assert process.wait(timeout=60) == 0
    out, err = process.communicate()
    assert "It shares: every space." in out.decode()
    assert "not the answer to this request" in err.decode()
