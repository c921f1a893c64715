"""Replay what known apps send, and write what they are answered into docs/connect.md.

    python -m tests.edge.app_shapes

The apps themselves are not run: apps.py says what is known of what they send. A trace has a line for each request;
what is secret or random is shortened. test_app_shapes.py compares the page with what the Worker answers now.
"""

import html
import re
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import httpx
from tests.edge.apps import APPS, App, Shape
from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.internet import Internet
from tests.edge.doubles.standin import Standin
from tests.edge.edge import OWNER_KEY, ROOT, Edge, secrets, worker
from tests.edge.oauth import Flow
from tests.edge.owner import parameters, sent_to
from tests.outside.wires import MODERN, headers, message

PAGE: Final = ROOT / "docs" / "connect.md"
BEGIN: Final = "<!-- Written by `python -m tests.edge.app_shapes`. -->\n"
END: Final = "<!-- Until here. -->\n"
COLUMNS: Final = 120
HOST: Final = "https://YOUR-HOST"
_SECRET: Final = re.compile(r"(shoal_[a-z]_)[A-Za-z0-9_-]{43}")
_TITLE: Final = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)


class Replay:
    """One app that connects in one way to a Worker, step by step; a step that goes wrong fails."""

    def __init__(self, url: str, internet: Internet, shape: Shape) -> None:
        self.shape = shape
        self.lines: list[str] = []
        """What was sent and answered."""
        self._internet = internet
        self._flow = Flow(url, OWNER_KEY, redirect_uri=shape.redirect_uri)
        self._number = 0

    def run(self) -> list[str]:
        """Do all of it and return the trace."""
        with self._flow:
            self._discover()
            self._identify()
            tokens = self._exchange(self._approve())
            self._talk(tokens["access_token"])
            again = self._refresh(tokens["refresh_token"])
            self._call(again["access_token"], "tools/call", name="memory_find", arguments={"query": "espresso"})
        return [self._shortened(line) for line in self.lines]

    # The way in

    def _discover(self) -> None:
        if self.shape.probes:
            probed = self._flow.app.request(self.shape.probes, "/mcp")
            self._note(f"{self.shape.probes} /mcp", probed, 401)
        refused = self._mcp(self._flow.app, self._opening(), {})
        self._note(f"POST /mcp {self._opening()}", refused, 401, refused.headers["www-authenticate"])
        for path in self.shape.looks_at:
            found = self._flow.app.get(path, headers={"mcp-protocol-version": self.shape.version})
            self._note(f"GET {path}", found, 200, _metadata(found.json()))

    def _identify(self) -> None:
        if self.shape.document:
            self._publish()
            if self.shape.document_status != 200:
                page = self._flow.ask(**self._asked())
                self._note(f"GET /authorize?client_id={self._flow.client_id}&...", page, 400, f"page: {_title(page)}")
        if self.shape.registration:
            for _ in range(self.shape.registers):
                made = self._flow.app.post("/register", json=dict(self.shape.registration))
                method = made.json()["token_endpoint_auth_method"]
                assert method == self.shape.registration["token_endpoint_auth_method"]
                secret = made.json().get("client_secret")
                given = f"client_id ..., {method}" + ("" if secret is None else f", client_secret {secret}")
                self._note(f"POST /register {self.shape.registration['client_name']}", made, 201, given)
                self._flow.client_id, self._flow.client_secret = made.json()["client_id"], secret

    def _publish(self) -> None:
        self._flow.client_id = self.shape.document["client_id"]
        served = dict(self.shape.document) if self.shape.document_status == 200 else "<html>Are you human?</html>"
        self._internet.put(self._flow.client_id, served, status=self.shape.document_status)

    def _approve(self) -> str:
        asked = self._asked()
        shown = self._flow.client_id if "://" in self._flow.client_id else "..."
        line = f"GET /authorize?client_id={shown}&redirect_uri={self.shape.redirect_uri}&scope={asked['scope']}&..."
        page = self._flow.ask(**asked)
        self._note(line, page, 200, f"page: {_title(page)}")
        signed_in = self._flow.sign_in(page)
        self._note("POST /login", signed_in, 303, "/authorize?...")
        page = self._flow.browser.get(signed_in.headers["location"])
        known = {**self.shape.document, **self.shape.registration}["client_name"]
        assert known in page.text, page.text
        self._note("GET /authorize?...", page, 200, f"page: {_title(page)}")
        answer = self._flow.decide(page)
        back = sent_to(answer)
        told = parameters(back)
        assert back.startswith(self.shape.redirect_uri), back
        assert (told["state"], told["iss"]) == (self.shape.state, self._flow.url)
        goes = "" if answer.status_code == 303 else "page with a button that opens "
        given = f"?code={told['code']}&state=...&iss={told['iss']}"
        self._note("POST /consent", answer, answer.status_code, f"{goes}{self.shape.redirect_uri}{given}")
        return told["code"]

    def _asked(self) -> dict[str, str]:
        return {"scope": self.shape.scope, "state": self.shape.state, **self.shape.more}

    # Tokens

    def _exchange(self, code: str) -> dict[str, Any]:
        answer = self._flow.exchange(code)
        self._note("POST /token authorization_code", answer, 200, _tokens(answer.json()))
        return answer.json()

    def _refresh(self, token: str) -> dict[str, Any]:
        answer = self._flow.refresh(token, resource=self._flow.resource)
        self._note("POST /token refresh_token", answer, 200, _tokens(answer.json()))
        return answer.json()

    # MCP

    def _opening(self) -> str:
        return "server/discover" if self.shape.version == MODERN else "initialize"

    def _talk(self, token: str) -> None:
        self._call(token, self._opening())
        if self.shape.version != MODERN:
            self._call(token, "notifications/initialized")
        self._call(token, "tools/list")
        espresso = {"content": "The espresso machine is on the third floor."}
        self._call(token, "tools/call", name="memory_store", arguments=espresso)

    def _call(self, token: str, method: str, **params: Any) -> None:
        with self._flow.caller(token) as http:
            answer = self._mcp(http, method, params)
        line = f"POST /mcp {method} {params.get('name', '')}".rstrip()
        if method.startswith("notifications/"):
            self._note(line, answer, 202)
        else:
            self._note(line, answer, 200, _result(method, answer.json()["result"]))

    def _mcp(self, http: httpx.Client, method: str, params: dict[str, Any]) -> httpx.Response:
        version = self.shape.version
        if method == "initialize":
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "app", "version": "1"}}
        self._number += 1
        number = None if method.startswith("notifications/") else self._number
        return http.post(
            "/mcp", json=message(version, method, params, number), headers=headers(version, method, params)
        )

    # The trace

    def _note(self, sent: str, answer: httpx.Response, status: int, told: str = "") -> None:
        assert answer.status_code == status, f"{sent}: {answer.status_code} {answer.text}"
        self.lines.append(f"{sent} -> {status} {told}".rstrip())

    def _shortened(self, line: str) -> str:
        return _SECRET.sub(r"\1...", line).replace(self._flow.url, HOST)


def _metadata(document: dict[str, Any]) -> str:
    if "resource" in document:
        return f"resource {document['resource']}, authorization_servers {' '.join(document['authorization_servers'])}"
    documents = "documents, " if document["client_id_metadata_document_supported"] else ""
    methods = " ".join(document["token_endpoint_auth_methods_supported"])
    challenge = " ".join(document["code_challenge_methods_supported"])
    return f"issuer {document['issuer']}, {documents}registration, {challenge}, {methods}"


def _tokens(answer: dict[str, Any]) -> str:
    tokens = f"access_token {answer['access_token']}, refresh_token {answer['refresh_token']}"
    return f"{tokens}, expires_in {answer['expires_in']}, scope {answer['scope']}"


def _result(method: str, result: dict[str, Any]) -> str:
    if method == "initialize":
        return f"protocolVersion {result['protocolVersion']}"
    if method == "server/discover":
        return f"supportedVersions {' '.join(result['supportedVersions'])}"
    if method == "tools/list":
        return " ".join(sorted(tool["name"] for tool in result["tools"]))
    assert result["isError"] is False, result
    told = result["structuredContent"]
    return told["status"] if "status" in told else f"{len(told['results'])} found"


def _title(page: httpx.Response) -> str:
    found = _TITLE.search(page.text)
    assert found, page.text
    return html.unescape(re.sub(r"<[^>]+>", "", found[1]))


# The page


def section(edge: Edge, internet: Internet, app: App) -> str:
    """Return what docs/connect.md says of an app, with the traces of its shapes. Each meets a Worker that is new."""
    first, *others = app.shapes
    whole = _trace(edge, internet, first)
    parts = [
        f"### {app.name}\n\n{_filled(app.click)}\n{_filled(app.check)}\n{_capital(first.title)}:\n\n{_block(whole)}\n"
    ]
    for shape in others:
        differing = [line for line in _trace(edge, internet, shape) if line not in whole]
        parts.append(f"{_capital(shape.title)}, what differs:\n\n{_block(differing)}\n")
    return "".join(parts)


def _trace(edge: Edge, internet: Internet, shape: Shape) -> list[str]:
    edge.empty()
    internet.clear()
    return Replay(edge.rig.url, internet, shape).run()


def _filled(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]


def _block(lines: Iterable[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```\n"


def written(app: App) -> str:
    """Return what docs/connect.md says of an app now."""
    return _sections()[app.name]


def names_written() -> list[str]:
    """Return the names of the apps of which it says something, in its order."""
    return list(_sections())


def _sections() -> dict[str, str]:
    generated = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    found = re.split(r"^(?=### )", generated, flags=re.MULTILINE)[1:]
    return {one.partition("\n")[0].removeprefix("### "): one for one in found}


def main() -> None:
    """Write the sections of all apps."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Internet() as internet,
        Standin(AiEngine.hashed()) as standin,
        worker(Path(folder), standin, internet.url, **secrets()) as rig,
    ):
        edge = Edge(rig, standin)
        sections = "".join(section(edge, internet, app) for app in APPS)
        edge.close()
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{sections}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
