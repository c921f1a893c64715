"""The command line. Each command is imported when it is called, so that `shoal mcp` starts fast."""


def main() -> None:
    """Run the command line with the process's arguments."""
    from shoal.local.cli.group import shoal

    shoal(prog_name="shoal")
