"""Where helpers of the tests are imported from."""

import sys
from pathlib import Path

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))
