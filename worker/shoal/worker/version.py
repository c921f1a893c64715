"""The release that this Worker is: a bundle has no package metadata. A test holds it to pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"
