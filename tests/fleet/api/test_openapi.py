from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coopbandits.fleet import service
from coopbandits.fleet.api import Api, messages
from coopbandits.fleet.api.openapi import describe

from .running import running
from .stand_in import StandIn

KEY = "secret"

# A reward may fit the schema, be a number, and still lie outside of the agent's range.
SETTINGS = """
[[operations]]
include-path = "/observe"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422]
"""


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with running(StandIn(), token=KEY) as server:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "st"), "--config-file", "settings.toml", "run",
             f"http://{server.address}/openapi.json", "--header", f"Authorization: Bearer {KEY}",
             "--checks", "all", "--max-examples", "10", "--generation-deterministic",
             "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in done.stdout


def test_every_endpoint_is_described() -> None:
    described = {
        path: [method.upper() for method in methods]
        for path, methods in describe(["blue"])["paths"].items()
    }
    endpoints = Api(StandIn()).endpoints
    assert described == {path: [endpoint.method] for path, endpoint in endpoints.items()}


def test_the_options_are_named() -> None:
    schemas = describe(["left", "right"])["components"]["schemas"]
    several, nothing = schemas["ChooseRequest"]["properties"]["allowed"]["anyOf"]
    assert several["items"]["enum"] == ["left", "right"]
    assert nothing == {"type": "null"}


def test_a_token_is_described_where_it_is_needed() -> None:
    plain = describe(["blue"])
    assert "securitySchemes" not in plain["components"]
    assert "401" not in plain["paths"]["/arms"]["get"]["responses"]
    locked = describe(["blue"], protected=True, public=["/ready"])
    assert locked["paths"]["/arms"]["get"]["security"] == [{"token": []}]
    assert "401" in locked["paths"]["/arms"]["get"]["responses"]
    assert "security" not in locked["paths"]["/ready"]["get"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (messages.ChoiceAnswer, service.Choice),
        (messages.ReceiptAnswer, service.Receipt),
        (messages.ArmAnswer, service.ArmEstimate),
    ],
)
def test_messages_have_the_fields_of_the_answers(
    message: type[msgspec.Struct], answer: type[service.Choice]
) -> None:
    assert message.__struct_fields__ == answer._fields
