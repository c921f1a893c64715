"""The one draw of entropy that importing a package written in Rust makes, for the shims of such packages.

The SDK lets the first of them draw once at global scope, for the seed of its hash tables, and complains when it
doesn't.
"""

# The runtime's own package is there only inside a Worker.
# pyright: reportMissingImports=false, reportUnknownVariableType=false

import os

from _cloudflare.allow_entropy import is_bad_entropy_enabled


def draw() -> None:
    """Draw a byte if the SDK waits for it."""
    if is_bad_entropy_enabled():
        os.urandom(1)
