"""Retrieval quality, latency and footprint, measured on data that is passed by path."""
