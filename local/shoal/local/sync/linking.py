"""Link a database to an edge, and unlink it.

For whoever replicates: `shoal link` and `shoal unlink` change `meta.sync_url` (core/replication.info().url) while they
hold SyncFiles.round_lock, so hold it for each round and read the URL inside. A running daemon notices by reading that
URL every few seconds; tokens that are exchanged under the same URL are read anew by Credentials itself.
"""
