"""How long to wait after a failure: exponential back-off with full jitter, and never less than the edge has asked for.

Full jitter: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from typing import Final

BASE_S: Final = 1.0
CAP_S: Final = 300.0


def wait_s(failures: int, chance: float, retry_after_s: float = 0.0) -> float:
    """Return the seconds to wait after so many failures in a row (from 1); `chance` is a random number in 0..1."""
    longest = min(CAP_S, BASE_S * 2.0 ** min(failures - 1, 30))
    return max(retry_after_s, chance * longest)
