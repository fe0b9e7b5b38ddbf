"""Where the command ``crossview`` starts, whether or not what it needs is installed."""

import signal
import sys


def main() -> None:
    """Run the command line."""
    try:
        from crossview.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: install crossview with its extra 'cli'.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that what is in use is closed
    app()


if __name__ == "__main__":
    main()
