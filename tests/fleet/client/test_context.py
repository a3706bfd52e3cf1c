"""Both clients tell of requests, and the page that shows how is right."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import parse_config
from coopbandits.fleet.storage.disk import MemoryDisk

from ..api.running import running
from ..contexts import agent_alone
from .driving import Make

PAGE = Path(__file__).parents[3] / "docs" / "fleet" / "context.md"
REQUEST: dict[str, Any] = {"hour": 13, "country": "PT"}


def test_choices_and_estimates_take_a_context(make: Make) -> None:
    service = agent_alone(MemoryDisk())
    with running(service) as server, make(server.address) as client:
        choice = client.choose(["a"], REQUEST)
        client.observe(choice.ticket, 1.0)
        assert client.arms(REQUEST) == service.bandit("only").arms(REQUEST)
        assert client.arms() == service.bandit("only").arms()
        assert client.arms(REQUEST) != client.arms()
        for context, sentence in (
            ({"hour": 13}, "context has no 'country'"),
            ({**REQUEST, "hour": float("nan")}, "'hour'.* nan"),
            ([1.0], r"\[1\.0\]"),
        ):
            with pytest.raises(InputError, match=sentence):
                client.choose(None, context)
            with pytest.raises(InputError, match=sentence):
                client.arms(context)
        with pytest.raises(InputError, match="context"):
            client.choose()
    assert service.bandit("only").replica.tickets.next_number == 2


def test_a_default_stands_in_whatever_the_request(tmp_path: Path, make: Make) -> None:
    with make(f"unix:{tmp_path}/none.sock", timeout=0.1, default="a") as client:
        assert client.choose(None, REQUEST).is_default


def test_the_page_is_right() -> None:
    text = PAGE.read_text()
    (toml,) = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    node = {"id": "n", "journal": "j", "listen": "127.0.0.1:1"}
    told = {**tomllib.loads(toml), "node": node}
    (bandit,) = parse_config(told, "n.toml", now=2e9, insecure=True).bandits.values()
    assert bandit.policy == "flooded-totals*lin-ts:disjoint=true"
    assert bandit.encoder.width == 5
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    service = agent_alone(MemoryDisk(), bandit.features)
    with running(service) as server:
        code = code.replace("127.0.0.1:8400", server.address).replace('"router"', '"only"')
        exec(code, {})  # noqa: S102  of our own page
    assert service.bandit("only").replica.own_counts.sum() == 1
