"""Which machine this is: a name that stays through restarts, renaming and other networks."""

import functools
import hashlib
import sys
from pathlib import Path
from typing import Final

_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
"""machine-id(5). It asks that nobody but the system sees the id itself, so it is hashed with a key of our own."""
_KEY: Final = b"shoal device anchor"


@functools.cache
def machine() -> str:
    """Return 16 hexadecimal characters for this machine: those of no id where the system tells none."""
    return hashlib.blake2b(_system_id(), key=_KEY, digest_size=8).hexdigest()


if sys.platform == "win32":  # pragma: no cover - the one system or the other

    def _system_id() -> bytes:
        import winreg

        key, access = r"SOFTWARE\Microsoft\Cryptography", winreg.KEY_READ | winreg.KEY_WOW64_64KEY
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, access) as opened:
                return str(winreg.QueryValueEx(opened, "MachineGuid")[0]).encode()
        except OSError:
            return b""

elif sys.platform == "darwin":  # pragma: no cover

    def _system_id() -> bytes:
        # gethostuuid(2): the hardware's UUID without the 10 ms that asking another program takes.
        import ctypes

        found, wait = (ctypes.c_ubyte * 16)(), (ctypes.c_long * 2)(1, 0)
        return b"" if ctypes.CDLL(None).gethostuuid(found, wait) else bytes(found)

else:

    def _system_id() -> bytes:
        for path in _FILES:
            try:
                return path.read_bytes().strip()
            except OSError:
                continue
        return b""
