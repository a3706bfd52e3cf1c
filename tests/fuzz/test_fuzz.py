"""What fuzzing once found stays mended, and a short run of each target holds what it promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .http import Asking
from .inputs import inputs
from .target import CASES, Check
from .targets import TARGETS

EXAMPLES = 40


@pytest.fixture(params=TARGETS)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[str, Check]]:
    with TARGETS[request.param].opened() as check:
        yield request.param, check


def test_every_case_belongs_to_a_target() -> None:
    assert {path.name for path in CASES.iterdir()} <= set(TARGETS)
    assert all(path.stat().st_size < 4096 for path in CASES.rglob("*") if path.is_file())


def test_what_broke_a_promise_once_no_longer_does(opened: tuple[str, Check]) -> None:
    name, check = opened
    for data in (*TARGETS[name].seeds(), *(path.read_bytes() for path in TARGETS[name].cases)):
        check(data)


def attempt_all(name: str, examples: int) -> None:
    with TARGETS[name].opened() as check:

        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(inputs(TARGETS[name]))
        def attempt(data: bytes) -> None:
            check(data)

        attempt()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    "examples", [EXAMPLES // 2, pytest.param(EXAMPLES, marks=pytest.mark.slow)]
)
def test_spoilt_inputs_keep_the_promise(name: str, examples: int) -> None:
    attempt_all(name, examples)


def test_no_client_is_left_waiting() -> None:
    target = TARGETS["http"]
    with target.opened() as check:
        assert isinstance(check, Asking)
        halves = [data[: len(data) // 2] for data in target.seeds()]
        check.to_the_end([*target.seeds(), *halves, b"", b"\x16\x03\x01"])


def raise_key_error(*_: object, **__: object) -> None:
    raise KeyError("a bug")


BUGS: dict[str, tuple[str, Any]] = {
    "frames": ("coopbandits.fleet.protocol.frames.Decoder._check", lambda _, header: header[5]),
    "messages": ("coopbandits.core.cooperative.CooperativeAgent.check_claims", lambda *_: None),
    "journal": ("coopbandits.fleet.storage.records._lost_power", lambda *_: True),
    "toml": ("coopbandits.fleet.config.read.find_contradictions", raise_key_error),
    "http": ("coopbandits.fleet.api.app.Api.choose", raise_key_error),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[name])
    with pytest.raises((AssertionError, LookupError, ValueError, ExceptionGroup)):
        attempt_all(name, 5 * EXAMPLES)
