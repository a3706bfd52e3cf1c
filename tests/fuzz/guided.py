"""One target under atheris, guided by coverage: ``python -m tests.fuzz.guided NAME SECONDS``.

What breaks a promise is written to the folder of cases, where tests find it.
"""

from __future__ import annotations

import importlib
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from .target import CASES

MODULES = {
    "frames": ("coopbandits.fleet.protocol",),
    "messages": ("coopbandits.fleet.protocol", "coopbandits.core.aggregate"),
    "journal": ("coopbandits.fleet.storage",),
    "toml": ("coopbandits.fleet.config", "coopbandits.fleet.address", "tomllib"),
    "http": ("coopbandits.fleet.api", "coopbandits.fleet.service", "uvicorn.protocols.http"),
}
"""What coverage guides; it must be known before anything is imported."""

LONGEST = 1 << 18
MEMORY_MB = 1500


def main(name: str, seconds: str) -> None:
    """Fuzz until the time is over or something breaks; ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(MODULES[name])):
        target = importlib.import_module("tests.fuzz.targets").TARGETS[name]
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="cb-corpus-") as corpus, target.opened() as check:
        for at, seed in enumerate(target.seeds()):
            Path(corpus, f"seed-{at}").write_bytes(seed)
        settings = {
            "max_total_time": seconds,
            "max_len": LONGEST,
            "rss_limit_mb": MEMORY_MB,
            "timeout": 20,
            "artifact_prefix": f"{CASES / name}/",
            "print_final_stats": 1,
        }
        options = [f"-{key}={value}" for key, value in settings.items()]
        atheris.Setup([sys.argv[0], *options, corpus, str(CASES / name)], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
