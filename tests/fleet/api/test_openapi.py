from __future__ import annotations

import msgspec
import pytest

from coopbandits.fleet import service
from coopbandits.fleet.api import Api, messages
from coopbandits.fleet.api.openapi import describe

from .stand_in import StandIn


def test_every_endpoint_is_described() -> None:
    described = {
        path: [method.upper() for method in methods]
        for path, methods in describe(["blue"])["paths"].items()
    }
    api = Api(StandIn())
    below = {f"/bandits/{{bandit}}/{call}": each for call, each in api.of_bandit.items()}
    endpoints = api.endpoints | below
    assert described == {path: [endpoint.method] for path, endpoint in endpoints.items()}


def test_a_reward_goes_to_the_bandit_that_chose() -> None:
    paths = describe(["blue"])["paths"]
    operations = {each["operationId"]: path for path, of in paths.items() for each in of.values()}
    for prefix in ("", "/bandits/{bandit}"):
        (link,) = paths[f"{prefix}/choose"]["post"]["responses"]["200"]["links"].values()
        assert operations[link["operationId"]] == f"{prefix}/observe"
        assert ("parameters" in link) == bool(prefix)


def test_calls_without_a_bandit_may_have_no_default() -> None:
    paths = describe(["blue"])["paths"]
    for path in ("/choose", "/observe", "/arms", "/recommendation"):
        for operation in paths[path].values():
            assert operation["summary"].endswith("of the default bandit")
            assert "default_bandit is not set" in operation["responses"]["404"]["description"]
    assert "404" not in paths["/export"]["get"]["responses"]


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
    assert locked["paths"]["/arms"]["get"]["security"] == [
        {"token": ["choose"]},
        {"token": ["admin"]},
    ]
    assert locked["paths"]["/drain"]["post"]["security"] == [{"token": ["admin"]}]
    assert "lacks the scope" in locked["paths"]["/drain"]["post"]["responses"]["403"]["description"]
    assert "401" in locked["paths"]["/arms"]["get"]["responses"]
    assert "security" not in locked["paths"]["/ready"]["get"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (messages.ChoiceAnswer, service.Choice),
        (messages.ReceiptAnswer, service.Receipt),
        (messages.ArmAnswer, service.ArmEstimate),
        (messages.BanditAnswer, service.BanditState),
        (messages.RecommendationAnswer, service.Recommendation),
    ],
)
def test_messages_have_the_fields_of_the_answers(
    message: type[msgspec.Struct], answer: type[service.Choice]
) -> None:
    assert message.__struct_fields__ == answer._fields
