"""The mind: pure logic and the Memory service over three small protocols. No I/O of its own."""
