"""`coopbandits`, or `python -m coopbandits`, is the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what to install where only the client is."""
    try:
        from coopbandits.cli import main as run
    except ModuleNotFoundError as error:
        if str(error.name).startswith("coopbandits"):
            raise
        sys.exit(
            f"error: {error.name} is not installed; the command line comes with: "
            "pip install coopbandits, or for an agent alone: pip install coopbandits-agent"
        )
    run()


if __name__ == "__main__":
    main()
