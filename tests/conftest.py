"""What all tests share."""

from __future__ import annotations

import argparse
import zlib

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy one is no fault of the code
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard", metavar="I/N", type=shard, help="run the I-th of N parts of the selected tests"
    )


def shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(
            f"a shard is I/N with 1 <= I <= N, such as 2/4, got {text!r}"
        )
    return int(part), int(parts)


@pytest.hookimpl(trylast=True)  # after `-m` and `-k`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one part, chosen by names, so that new tests do not move the others."""
    if config.option.shard is None:
        return
    part, parts = config.option.shard
    mine = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == part - 1]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
    items[:] = mine


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.option.shard is None:
        return []
    return ["shard {} of {}".format(*config.option.shard)]
