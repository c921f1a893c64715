"""Lets the tests import what they share from the root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
