"""A static file server: a web page of somebody else's, on an origin of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).with_name("page")


class _Files(SimpleHTTPRequestHandler):
    extensions_map: Final = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def page_elsewhere() -> Iterator[str]:
    """Serve the page on a free port while the context lasts; gives its origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(FOLDER))) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
