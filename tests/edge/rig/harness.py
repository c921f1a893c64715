"""The sample Worker, with which the rig itself is tested, and a server for it to call."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
from tests.edge.rig.rig import Rig

ROOT = Path(__file__).parents[3]
SAMPLE = Path(__file__).with_name("sample")
PACKAGES = ROOT / "python_modules"

Do = Callable[..., Any]
"""Has the sample Worker do something (`do_*` of sample/src/entry.py) and returns its answer."""


class Echo(BaseHTTPRequestHandler):
    """Answers as the stand-in for Vectorize and Workers AI does: with what it was asked, or with an error."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "refuse" in asked["args"]:
            self.answer(400, {"error": {"name": "VectorizeError", "message": "told to refuse"}})
        else:
            self.answer(200, {"result": {"path": self.path, **asked}})

    def do_GET(self) -> None:
        self.answer(200, "here")

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def sample(folder: Path, **options: Any) -> Rig:
    """The sample Worker, not started, with data in the folder."""
    given: dict[str, Any] = {"python_modules": PACKAGES, "variables": {"SECRET": "s3cret"}, "queue_wait_s": 0}
    return Rig(SAMPLE, folder / "persist", **{**given, **options})


@contextmanager
def doing(rig: Rig) -> Generator[Do]:
    """Ask a running sample Worker."""
    with httpx.Client(base_url=rig.url, timeout=30) as client:

        def do(action: str, **arguments: Any) -> Any:
            return client.post(f"/{action}", json=arguments).json()

        yield do
