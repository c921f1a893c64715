"""Starting, failing to start, stopping and starting again; nothing is left behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.edge.rig.harness import ROOT, SAMPLE, doing, sample
from tests.edge.rig.process import environment
from tests.edge.rig.rig import REAL_INTERNET, Rig, RigError
from tests.edge.rig.tools import TOOLS, node

GONE_S = 20.0


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be noticed by its parent doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def await_end(pids: list[int]) -> None:
    """Wait until none of the processes runs: their end is no event to anyone but their parent."""
    deadline = time.monotonic() + GONE_S
    while any(map(lives, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.02)


def worker(folder: Path, code: str) -> Path:
    """A folder of sources with one main module."""
    (folder / "src").mkdir()
    (folder / "src" / "entry.py").write_text(code)
    return folder / "src"


GLOBAL_SCOPE = """
import asyncio, secrets
import js
import cryptography.exceptions, jsonschema, mcp.server, rpds
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pyodide.ffi import run_sync
from workers import Response, WorkerEntrypoint, env

def refused(action):
    try:
        return f"allowed: {action()}"
    except Exception as error:
        return str(error)

told = {
    "entropy": refused(secrets.token_hex),
    "fetch": refused(lambda: run_sync(js.fetch("http://127.0.0.1:9"))),
    "timer": refused(lambda: run_sync(asyncio.sleep(0.1))),
    "binding": refused(lambda: run_sync(env.DB.prepare("SELECT 1").first())),
}
schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}

def opened(sealed):
    try:
        return AESGCM(b"key").decrypt(b"nonce", sealed, b"with").decode()
    except cryptography.exceptions.InvalidTag:
        return "changed"

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        # The first test vector of RFC 5869.
        key = HKDF(algorithm=SHA256(), length=42, salt=bytes(range(13)), info=bytes(range(0xF0, 0xFA)))
        sealed = AESGCM(b"key").encrypt(b"nonce", "né".encode(), b"with")
        return Response.json({
            **told,
            "valid": [jsonschema.Draft202012Validator(schema).is_valid({"a": value}) for value in (1, "x")],
            "key": key.derive(b"\\x0b" * 22).hex(),
            "opened": [opened(sealed), opened(sealed[:-1] + b"?")],
        })
"""


def test_global_scope_is_refused_entropy_fetches_and_timers_but_loads_what_production_loads(tmp_path: Path):
    with sample(tmp_path, sources=worker(tmp_path, GLOBAL_SCOPE), internet=REAL_INTERNET) as rig, doing(rig) as do:
        told = do("")
        breaches = {breach.rule for breach in rig.breaches()}
    assert "Randomness is not allowed while a Worker is starting" in told["entropy"]
    assert "Disallowed operation called within global scope" in told["fetch"]
    assert "Disallowed operation called within global scope" in told["timer"]
    assert "Disallowed operation called within global scope" in told["binding"]
    assert breaches == {"stray"}
    # The shims of packages that draw entropy when they load, as the real ones do.
    assert told["valid"] == [True, False]
    assert told["key"] == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    assert told["opened"] == ["né", "changed"]


def test_a_worker_that_does_not_start_says_why(tmp_path: Path):
    rig = sample(tmp_path, sources=worker(tmp_path, "import secrets\nsecrets.token_hex()"))
    with pytest.raises(RigError) as raised:
        rig.start()
    assert 'File "/session/metadata/entry.py", line 2, in <module>' in str(raised.value)
    assert "Randomness is not allowed while a Worker is starting" in str(raised.value)
    rig.close()


def test_a_restart_keeps_data_and_address_and_brings_in_what_was_changed(tmp_path: Path):
    sources = worker(tmp_path, (SAMPLE / "src" / "entry.py").read_text())
    with sample(tmp_path, sources=sources) as rig:
        with doing(rig) as do:
            do("batch", statements=["INSERT INTO seen (place, what) VALUES ('kept', 'x')"])
            do("put_blob", name="kept", text="y")
        url, pids = rig.url, rig.pids()
        entry = sources / "entry.py"
        entry.write_text(entry.read_text().replace('"greeting"', '"changed"'))
        rig.restart()
        await_end(pids)
        assert rig.url == url
        with doing(rig) as do:
            assert do("seen", place="kept") == ["x"]
            assert do("get_blob", name="kept") == "y"
            assert do("hello") == {"changed": "hello", "secret": "s3cret"}


RUN = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.edge.rig.harness import sample
rig = sample(Path(sys.argv[1]))
rig.start()
print(*rig.pids(), flush=True)
time.sleep(1000)
"""


def test_a_killed_parent_leaves_no_process(tmp_path: Path):
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        parent.kill()
    await_end(pids)


def test_a_taken_port_is_told(tmp_path: Path, running: Rig):
    taken = int(running.url.rpartition(":")[2])
    rig = sample(tmp_path, port=taken)
    with pytest.raises(RigError, match="Address already in use"):
        rig.start()
    rig.close()


def test_a_worker_that_was_not_staged_is_told(tmp_path: Path):
    rig = sample(tmp_path, sources=tmp_path / "nowhere")
    with pytest.raises(RigError, match="nowhere is missing"):
        rig.start()
    with pytest.raises(RigError, match="isn't running"):
        rig.mark()
    rig.close()


def test_wrangler_finds_the_data_and_the_migrations_that_the_rig_has_applied(running: Rig):
    assert "No migrations to apply" in wrangler("d1", "migrations", "list", "DB", persist=running.persist)


def wrangler(*arguments: str, persist: Path) -> str:
    """Run wrangler on the sample's local data and return what it says."""
    command = [str(node()), str(TOOLS / "node_modules" / "wrangler" / "bin" / "wrangler.js"), *arguments]
    home = {"HOME": str(persist), "XDG_CONFIG_HOME": str(persist)}
    done = subprocess.run(
        [*command, "--local", "--persist-to", str(persist), "--config", str(SAMPLE / "wrangler.toml")],
        env={**environment(), **home},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
