"""What all tests share."""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator

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


@pytest.hookimpl(tryfirst=True, wrapper=True)  # around the choice by `-m` and `-k`
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark the cases that do not cover anything new as slow; keep one shard of what is chosen."""
    leave_to_the_slow_tier(items)
    yield
    if config.option.shard is not None:
        part, parts = config.option.shard
        others = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part - 1]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def leave_to_the_slow_tier(items: list[pytest.Item]) -> None:
    """Apply `covering`: every value of every argument, or as many cases as it says, stay."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("covering"):
            assert hasattr(item, "callspec"), f"{item.nodeid} has a single case: nothing to cover"
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        marker = cases[0].get_closest_marker("covering")
        assert marker is not None
        cases = [case for case in cases if not case.get_closest_marker("slow")]
        for case in set(cases) - set(covering(cases, *marker.args)):
            case.add_marker("slow")


def covering(cases: list[pytest.Item], number: int | None = None) -> list[pytest.Item]:
    """Return `number` cases at even distances, or some that hold all values of all arguments."""
    if number is not None:
        return [cases[len(cases) * at // number] for at in range(min(number, len(cases)))]
    chosen, seen = [], set[tuple[str, int]]()
    for case in cases:
        params = case.callspec.params  # type: ignore[attr-defined]  # of parametrised tests
        values = {(name, id(value)) for name, value in params.items()}  # not all can be hashed
        if not values <= seen:
            chosen.append(case)
            seen |= values
    return chosen


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.option.shard is None:
        return []
    return ["shard {} of {}".format(*config.option.shard)]
