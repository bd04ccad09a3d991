"""``python -m fedballot.cli``, and what ``fedballot`` runs: Ctrl-C ends it with a word, while it imports as well."""

import os
import sys


def main() -> None:
    """The command; exit code 130 where Ctrl-C falls before it has begun."""
    try:
        from fedballot.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
