"""A laptop: a home with a daemon, which is killed and comes back at the same port."""

import json
import os
import signal
from typing import Any, Final

from click.testing import CliRunner, Result
from tests.laptops.replica import Replica
from tests.laptops.writer import Answer, Unheard
from tests.local.processes import Processes, free_port

from shoal.local.cli.group import shoal
from shoal.local.client import NotSent, OutcomeUnknown, request
from shoal.local.home import DaemonRecord, Home

ANSWERS_WITHIN_S: Final = 30.0


class Laptop:
    """A home, and the daemon that serves it."""

    def __init__(self, home: Home, name: str) -> None:
        self.home = home
        self.name = name
        self.replica = Replica(home.database)
        self.processes = Processes(home)
        # No model, and nobody's keyring.
        self._environment = {
            "SHOAL_HOME": str(home.root),
            "SHOAL_MODEL": "off",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }
        self._port = free_port()
        self._record: DaemonRecord | None = None
        self.device = ""
        """The name under which it stamps, from the link on."""

    def start(self) -> None:
        """Start the daemon, and return when it answers."""
        self._record = self.processes.daemon(self._port, **self._environment)

    def kill(self) -> None:
        """End the daemon as a lost battery would, but for the disk."""
        assert self._record is not None
        process = self.processes.process_of(self._record)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def link(self, url: str, token: str) -> None:
        """Link the home to an edge by a device token."""
        linked = self.run("link", url, "--token-stdin", input=token)
        assert linked.exit_code == 0, linked.output
        self.device = self.replica.device()

    def run(self, *arguments: str, **options: Any) -> Result:
        """Run a command of the home in this process."""
        return CliRunner().invoke(shoal, arguments, env=self._environment, catch_exceptions=False, **options)

    def told(self, *arguments: str) -> Any:
        """Return the JSON of a command that must go well."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, f"{self.name}: {result.output}"
        return json.loads(result.stdout)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask the daemon over REST. Raises Unheard when no answer comes."""
        assert self._record is not None
        sent = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        try:
            reply = request(self._record, method, f"/api/v1{path}", sent, headers, ANSWERS_WITHIN_S)
            return Answer(reply.status, reply.json())
        except (NotSent, OutcomeUnknown) as error:
            raise Unheard from error
