"""`coopbandits`, or `python -m coopbandits`, is the command line."""

from __future__ import annotations

import gc
import signal
import sys

from coopbandits.loading import FROM_SOURCE


def main() -> None:
    """Run the command line; say what to install where only the client is."""
    if sys.argv[1:2] == ["agent"]:
        # It reads its file anyway. Until it can be told to read it again, a reload must not end it,
        # which service managers would take for a clean stop.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # What a command imports lives as long as the process. To look for garbage in it, while it is
    # imported and once more at the end, takes a quarter of a short command's time.
    gc.set_threshold(50_000)
    try:
        from coopbandits.cli import main as run
    except ModuleNotFoundError as error:
        if str(error.name).startswith("coopbandits"):
            raise
        sys.exit(
            f"error: {error.name} is not installed; the command line comes with: pip install "
            f"coopbandits, for an agent alone: pip install coopbandits-agent, {FROM_SOURCE}"
        )
    try:
        run()
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
