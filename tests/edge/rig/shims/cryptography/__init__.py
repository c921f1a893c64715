"""Stands in for cryptography, whose wheel for WebAssembly isn't on the package registry. Tests only: nothing is secret.

Production takes the real one from Pyodide's distribution; it comes first on sys.path wherever it is. Here is what
`mcp` imports to seal the state that clients carry; what else asks is told that there is no cryptography.
"""

__version__ = "0"


def __getattr__(name: str) -> object:
    # PyJWT asks for x509 and does without when there is no such module.
    if name.startswith("__"):
        raise AttributeError(name)
    raise ModuleNotFoundError(f"the rig's stand-in for cryptography has no {name}", name=f"cryptography.{name}")
