"""Finds Chromium. `python -m tests.browser.chromium` installs Debian's where there is none and that can be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VARIABLE: Final = "SHOAL_CHROMIUM"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC: Final = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
INSTALL: Final = (
    ("apt-get", "update", "--quiet=2"),
    ("apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", "chromium"),
)
MISSING: Final = (
    "Chromium is missing. Install it (on Debian and Ubuntu: sudo apt-get install chromium), or let SHOAL_CHROMIUM name"
    " the program of any Chromium or Chrome."
)


class NoChromium(Exception):
    """There is none; the message says what to do."""


def chromium() -> Path:
    """Return the program. Raises NoChromium."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NoChromium(f"{VARIABLE} names {named}, which is no file.")
        return Path(named)
    found = [Path(path) for name in NAMES if (path := shutil.which(name))]
    found += [path for path in MAC if path.is_file()]
    if not found:
        raise NoChromium(MISSING)
    return found[0]


def install() -> None:
    """Install Debian's package, where that can be done without asking anyone. Raises NoChromium."""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise NoChromium(MISSING)
    print("Setting up, once: Chromium from Debian's packages", file=sys.stderr)
    for command in INSTALL:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoChromium(f"{' '.join(command)} failed: {done.stderr.strip()}\n{MISSING}")


def main() -> int:
    """See that there is one."""
    try:
        try:
            chromium()
        except NoChromium:
            if os.environ.get(VARIABLE):
                raise
            install()
            chromium()
    except NoChromium as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
