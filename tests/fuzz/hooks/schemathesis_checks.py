"""A check of ours for Schemathesis, which loads this module in an environment of its own."""

import os

import schemathesis

MARKER = os.environ["SHOAL_FUZZ_MARKER"].encode()


@schemathesis.check
def tells_nothing_of_another_space(_context, response, _case):
    """Fail when an answer has what lies in a space that the token can't read."""
    if MARKER in response.content or MARKER in repr(response.headers).encode():
        raise AssertionError("the answer tells what lies in a space that the token can't read")
