from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from coopbandits.fleet.config import consistency

from .sample import NOW, REMOVED, made, made_bandit
from .test_read import problems

LOCAL: tuple[tuple[str, Any], ...] = (
    ("tls", REMOVED),
    ("node.listen", "127.0.0.1:0"),
    ("neighbors.0.address", "localhost:7401"),
    ("neighbors.1.address", "[::1]:7402"),
)


def test_an_epoch_in_the_future() -> None:
    made(("cluster.epoch", datetime.fromtimestamp(NOW, UTC)))
    (found,) = problems(("cluster.epoch", datetime.fromtimestamp(NOW + 1, UTC)))
    assert "2026-06-01T00:00:01+00:00" in found


def test_rewards_must_be_declared() -> None:
    (found,) = problems(("bandits.button.reward_range", REMOVED))
    assert "neither reward_range nor sigma" in found
    made(("bandits.button.reward_range", REMOVED), ("bandits.button.sigma", 3.0))
    made(("bandits.button.sigma", 3.0))
    changes = (("bandits.button.reward_range", REMOVED), ("bandits.button.sigma", 3.0))
    (found,) = problems(*changes, ("bandits.button.policy", "tree-ts:family=bernoulli"))
    assert "tree-ts:family=bernoulli" in found


@pytest.mark.parametrize(
    ("policy", "num_agents", "lambda_bound", "told"),
    [
        ("dducb", 8, 0.9, (8, 0.9)),
        ("dducb", "estimate", "estimate", (None, None)),
        ("dducb", 8, "estimate", (8, None)),
        ("dducb:num_agents=6..9", None, 0.9, (None, 0.9)),
        ("dducb:accelerated=false,mixing_rounds=9", 8, None, (8, None)),
        ("coop-ucb2:gamma=1.01", 8, None, (8, None)),
        ("dec-ts", 8, None, (8, None)),
        ("gossip-ts", None, None, (None, None)),
        ("flood-ucb", None, None, (None, None)),
    ],
)
def test_what_policies_are_told(
    policy: str, num_agents: Any, lambda_bound: Any, told: tuple[Any, Any]
) -> None:
    given = (("num_agents", num_agents), ("lambda_bound", lambda_bound))
    changes = [(f"bandits.button.{key}", value) for key, value in given if value is not None]
    bandit = made(("bandits.button.policy", policy), *changes).bandits["button"]
    assert (bandit.known_num_agents, bandit.known_lambda_bound) == told


@pytest.mark.parametrize(
    ("policy", "num_agents", "lambda_bound", "sentences"),
    [
        ("dducb", None, 0.9, [r'num_agents.*\bdducb\b.*"estimate"']),
        ("dducb", 8, None, [r'lambda_bound.*\bdducb\b.*"estimate"']),
        ("dducb", None, None, ["num_agents", "lambda_bound"]),
        ("dducb:num_agents=8", 8, 0.9, [r"num_agents.* 8\b.*dducb:num_agents=8"]),
        ("dec-ts", None, None, ["num_agents.*dec-ts"]),
        ("dec-ts", "estimate", None, ["num_agents.*dec-ts"]),
        ("dec-ts", 8, 0.5, [r"lambda_bound.* 0\.5.*dec-ts"]),
        ("flood-ts", 8, None, [r"num_agents.* 8\b.*flood-ts"]),
        ("tree-ts", None, "estimate", ["lambda_bound.*'estimate'.*tree-ts"]),
        ("dec-ts", 2, None, [r"num_agents.* 2\b.* 3\b"]),
        ("dec-ts", 1001, None, [r"max_agents.* 1000\b"]),
    ],
)
def test_what_policies_are_not_told(
    policy: str, num_agents: Any, lambda_bound: Any, sentences: list[str]
) -> None:
    given = (("num_agents", num_agents), ("lambda_bound", lambda_bound))
    changes = [(f"bandits.button.{key}", value) for key, value in given if value is not None]
    found = problems(("bandits.button.policy", policy), *changes)
    assert len(found) == len(sentences)
    for text, sentence in zip(found, sentences, strict=True):
        assert re.search(sentence, text)


def test_more_neighbours_than_agents() -> None:
    made(("cluster.max_agents", 3))
    (found,) = problems(("cluster.max_agents", 2))
    assert "max_agents is 2" in found


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = problems(("neighbors.1.id", "shop-1"))
    assert re.search(r"shop-1\b.*\[\[neighbors\]\]", found)
    monkeypatch.setattr(consistency, "agent_number", lambda name: len(name))
    (found,) = problems(("neighbors.1.id", "mill"))
    assert re.search(r"shop-1 and shop-2.* 6\b", found)


def test_without_tls() -> None:
    (found,) = problems(*LOCAL)
    assert "no [tls]" in found
    assert made(*LOCAL, insecure=True).tls is None
    assert made(insecure=True).tls is not None


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("node.listen", "0.0.0.0:7400", r"\[node\] listen.* 0\.0\.0\.0:7400"),
        ("node.listen", "[::]:7400", r"\[node\] listen.* \[::\]:7400"),
        ("neighbors.0.address", "10.0.0.2:1", r"shop-2.* 10\.0\.0\.2:1"),
        ("neighbors.0.address", "localhost.example:1", r"localhost\.example:1"),
        ("node.api", "10.0.0.1:8400", r"\[node\] api.* 10\.0\.0\.1:8400"),
    ],
)
def test_without_tls_on_many_machines(place: str, value: str, sentence: str) -> None:
    more = ("node.token_file", "token")
    (found,) = problems(*LOCAL, more, (place, value), insecure=True)
    assert re.search(sentence, found)
    assert "no [tls]" in found


def test_an_api_for_others() -> None:
    api = ("node.api", "0.0.0.0:8400")
    (found,) = problems(api)
    assert "token_file or [api_tls]" in found
    made(api, ("node.token_file", "token"))
    made(api, ("api_tls", {"ca": "a", "certificate": "b", "key": "c"}))
    for private in ("127.0.0.1:0", "[::1]:8400", "unix:/run/agent.sock"):
        made(("node.api", private))


def test_a_document_that_nobody_could_have_signed() -> None:
    (found,) = problems(("document", {"file": "cluster.toml"}))
    assert "[document]" in found
    key = f"ed25519:{'0' * 64}"
    assert made(("document", {"file": "cluster.toml", "operators": [key]})).document.operators


def test_the_path_of_a_socket_is_short() -> None:
    made(("node.api", "unix:/run/" + "x" * 98))
    (found,) = problems(("node.api", "unix:/run/" + "x" * 99))
    assert "103 bytes" in found


@pytest.mark.parametrize("policy", ["flood-ts", "flood-ucb", "tree-ts", "gossip-ts"])
def test_policies_that_may_forget(policy: str) -> None:
    assert made_bandit(("policy", policy), ("half_life", "2h")).half_life == 7200.0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"policy": "dec-ts", "num_agents": 3},
            "half_life.* 2 h.*dec-ts.*pull-mixing, tree-sums, flooded-totals",
        ),
        (
            {"policy": "dducb", "num_agents": 3, "lambda_bound": 0.9},
            r"\bdducb\b.*clock",
        ),
        (
            {"policy": "tree-ts:lazy=0.5"},
            r"half_life.* 2 h.*lazy.* 0\.5",
        ),
        (
            {"half_life": "4s"},
            "half_life.* 4 s.* 5 s.*rounds_per_second",
        ),
        ({"half_life": 2}, r"half_life.* 2\b"),
    ],
)
def test_half_lives_that_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    given = {"half_life": "2h"} | changes
    (found,) = problems(*((f"bandits.button.{key}", value) for key, value in given.items()))
    assert re.search(sentence, found)


AUTO: tuple[tuple[str, Any], ...] = (("node.neighbors", "auto"), ("neighbors", REMOVED))


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "gossip-ts"])
def test_policies_whose_neighbours_may_change(policy: str) -> None:
    config = made(
        *AUTO, ("bandits.button.policy", policy), ("node.seeds", ["shop.example.net:7400"])
    )
    assert config.auto
    assert config.neighbors == {}
    assert config.most_links == 7
    assert not made().auto


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"bandits.button.policy": "dec-ts", "bandits.button.num_agents": 3},
            "dec-ts.*synchronous",
        ),
        ({"tls": REMOVED}, "certificates"),
        ({"neighbors": [{"id": "b", "address": "b:1"}]}, r'"auto".* 1\b'),
    ],
)
def test_neighbours_that_cannot_be_found(changes: dict[str, Any], sentence: str) -> None:
    found = problems(*(dict(AUTO) | changes).items())
    assert any(re.search(sentence, each) for each in found)


@pytest.mark.parametrize(
    ("key", "value"), [("seeds", ["shop.example.net:7400"]), ("advertise", "203.0.113.7:7400")]
)
def test_what_goes_with_neighbours_that_are_found(key: str, value: Any) -> None:
    (found,) = problems((f"node.{key}", value))
    assert re.search(rf'\[node\].*{key}.*neighbors = "auto"', found)


def test_the_default_bandit_is_declared_by_the_file_or_perhaps_by_a_document() -> None:
    assert made().default_bandit is None
    assert made(("node.default_bandit", "button")).default_bandit == "button"
    (found,) = problems(("node.default_bandit", "buton"))
    assert "[node] default_bandit is 'buton', which is not declared" in found
    assert "name one of button" in found
    (found,) = problems(("bandits", {}), ("node.default_bandit", "button"))
    assert found.endswith("[bandits.button], or remove it")
    key = "ed25519:3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
    assert made(("node.default_bandit", "later"), ("document", {"operators": [key]}))
    (found,) = problems(("node.default_bandit", "No Name"))
    assert "checkout-button" in found


@pytest.mark.parametrize("policy", ["dducb", "gossip-ts", "flood-ts:spread=0.1"])
def test_an_era_needs_a_policy_that_carries_over(policy: str) -> None:
    """Agents of others have no base: they would not start."""
    needs = {"num_agents": 3, "lambda_bound": 0.9} if policy == "dducb" else {}
    given = [(f"bandits.button.{key}", value) for key, value in needs.items()]
    made(("bandits.button.policy", policy), *given)
    (found,) = problems(("bandits.button.policy", policy), ("bandits.button.era", 1), *given)
    assert f"era is 1, but policy {policy}" in found
    assert "leave out era" in found
