"""What we add to Schemathesis, which loads this module in an environment of its own."""

import contextlib
import itertools
import os
import sqlite3

import schemathesis

MARKER = os.environ["SHOAL_FUZZ_MARKER"].encode()
COUNTED = os.environ["SHOAL_FUZZ_COUNTED"]
"""The SQLite file in which a Worker's rate limit counts requests; empty where there is none."""
EVERY = 100
"""Requests after which those before are forgotten."""
LOCK_WAIT_S = 10
_calls = itertools.count()


@schemathesis.check
def tells_nothing_of_another_space(_context, response, _case):
    """Fail when an answer has what lies in a space that the token can't read."""
    if MARKER in response.content or MARKER in repr(response.headers).encode():
        raise AssertionError("the answer tells what lies in a space that the token can't read")


@schemathesis.hook
def before_call(_context, _case, _kwargs):
    """Forget counted requests while none is under way, or the file would be locked for the Worker."""
    if COUNTED and next(_calls) % EVERY == 0:
        with contextlib.closing(sqlite3.connect(COUNTED, timeout=LOCK_WAIT_S, isolation_level=None)) as file:
            file.execute("delete from _mf_ratelimit_buckets")
