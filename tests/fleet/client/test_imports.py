"""What a client loads; `python -m benchmarks --fleet` shows what that, and a call, cost."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "msgspec", "asyncio", "ssl", "logging", "cryptography"}


def test_a_client_is_imported_without_what_it_does_not_need() -> None:
    code = "import sys, coopbandits.fleet.client; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
