"""The laptop's end: drivers for apsw, sqlite-vec and fastembed, the daemon, the stdio shim and the command line."""
