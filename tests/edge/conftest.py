"""What the tests of the edge share."""

import sys
from pathlib import Path

# The tests' shared helpers (tests/edge/rig, tests/edge/doubles) are imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))
