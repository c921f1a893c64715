"""Replication: how laptops and the edge come to have the same memories. No I/O of its own."""
