"""Replication on the laptop: how the edge is reached, by which credentials, and how a device is linked to it."""
