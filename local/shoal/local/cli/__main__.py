"""`python -m shoal.local.cli`: how a shim starts the daemon, whatever PATH says."""

from shoal.local.cli import main

main()
