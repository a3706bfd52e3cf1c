"""Lines of an agent's log: fields for peers, bandits and reasons, as text and as JSON."""

from __future__ import annotations

import ast
import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from coopbandits.fleet.logs import TEXT, JsonLines, LogEvent

FLEET = Path(__file__).parents[2] / "src" / "coopbandits" / "fleet"

LOGS = {
    "log",
    "logger",
    "_links_log",
    "_strangers_log",
    "_refusals",
    "_cuts",
    "_failures",
    "_second_names",
}
"""Names of what lines are written with."""

OF_THE_AGENT = {
    "agent %s serves at %s, after %d rounds",
    "agent %s stopped after %d rounds",
    "agent %s failed in %s and stops",
}
"""Messages about the agent itself, whose id is a field of every line."""

ELSEWHERE = ("client", "ratelimit.py")
"""A client writes to the application's log, and rate limits write what they are given."""


def record(message: object, *arguments: object, **more: object) -> logging.LogRecord:
    facts = {"name": "a.b", "levelname": "ERROR", "msg": message, "args": arguments}
    return logging.makeLogRecord(facts | more)


def test_a_line_of_text_has_the_event_and_then_the_fields() -> None:
    event = LogEvent("link down", peer="shop-2", bandit=None, reason='"gone"\n\x1b[2J')
    line = logging.Formatter(TEXT).format(record(event))
    assert line.endswith(' ERROR link down peer=shop-2 reason="\\"gone\\"\\n\\u001b[2J"')


def test_a_line_of_json_has_the_fields_beside_the_event() -> None:
    event = LogEvent("link down", peer="shop-2", rounds=5, reason=ValueError("no ü here"))
    found = json.loads(JsonLines("shop-1").format(record(event)))
    assert datetime.fromisoformat(found.pop("time")).utcoffset() is not None
    assert found == {
        "level": "error",
        "agent": "shop-1",
        "logger": "a.b",
        "message": "link down",
        "peer": "shop-2",
        "rounds": 5,
        "reason": "no ü here",
    }


def test_a_line_is_an_object_with_the_traceback_inside() -> None:
    try:
        raise ValueError("no ü here")
    except ValueError:
        told = record("failed: %s\n", "λ", exc_info=sys.exc_info())
    line = JsonLines("shop-1").format(told)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "failed: λ\n"
    assert found["traceback"].endswith("ValueError: no ü here")


def calls() -> Iterator[tuple[str, ast.expr]]:
    """Yield place and message of every log call of an agent."""
    for path in sorted(FLEET.rglob("*.py")):
        if path.relative_to(FLEET).parts[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id=name) | ast.Attribute(attr=name), attr=level
                    ),
                    args=arguments,
                ) if name in LOGS and (
                    level in {"exception", "critical", "log"} or hasattr(logging, level.upper())
                ):
                    # The level, or the time of a rate limit, may come first.
                    texts = [each for each in arguments if not _is_number(each)]
                    yield f"{path.name}:{node.lineno}", texts[0]


def _is_number(argument: ast.expr) -> bool:
    text = ast.unparse(argument)
    return text in {"level", "now", "self.clock()", "loop.time()"}


def test_every_line_about_a_peer_a_bandit_or_a_reason_has_it_as_a_field() -> None:
    """Messages are constants: names and reasons are in the fields of a `LogEvent`.

    Numbers may be part of a sentence.
    """
    found = dict(calls())
    assert len(found) > 35
    events = 0
    for place, message in found.items():
        match message:
            case ast.Constant(value=str(text)):
                assert text in OF_THE_AGENT or ("%s" not in text and "%r" not in text), place
            case ast.Call(
                func=ast.Name(id="LogEvent"),
                args=[ast.Constant() | ast.IfExp(body=ast.Constant(), orelse=ast.Constant())],
            ):
                events += 1
            case _:
                pytest.fail(f"{place}: {ast.unparse(message)}")
    assert events > 20
