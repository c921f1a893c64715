"""The benchmarks are not installed: they are imported from the root, as `python -m bench.x` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
