"""Every rule on numbers that confirm it, contradict it, and leave it open."""

from __future__ import annotations

from typing import Any

import pytest

from coopbandits.experiments.paper.claims import RULES, judge, wasted
from coopbandits.experiments.paper.settings import FIGURES
from coopbandits.experiments.paper.verdicts import DEPENDS, FAILS, HOLDS, Claim

from .synthetic import make_played


def claim(start: str, *changes: dict[str, Any]) -> Claim:
    """Return a claim by the beginning of its text; one mapping of changes per figure."""
    figures = ("cycle-100", "grid-100")
    played = [make_played(name, **change) for name, change in zip(figures, changes, strict=True)]
    ((text, where, rule),) = [rule for rule in RULES if rule[0].startswith(start)]
    return Claim(text, where, rule(played))


def test_all_claims_hold_on_numbers_made_for_them() -> None:
    claims = judge([make_played(name) for name in FIGURES])
    assert len(claims) == len(RULES)
    assert {claim.text: claim.verdict for claim in claims if claim.verdict != HOLDS} == {}


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "DDUCB has less regret than coop-UCB": {"dducb": (32_000, 20)},
    "DDUCB's curves are almost horizontal": {"unaccelerated": (1200, 1100)},
    "At the end coop-UCB's curves": {"dducb": (25_000, 19_500)},
    "By then coop-UCB has not learned": {"coop-ucb 2": (35_000, 100)},
    "coop-UCB with γ = 1.001": {"coop-ucb 1.001": (30_300, 19_000)},
    "DDUCB performs better than the earlier": {"coop-ucb2": (900, 20)},
    "coop-UCB2, which knows less": {"coop-ucb2": (900, 20)},
    "Accelerated mixing lowers": {"unaccelerated": (900, 20)},
    "Reading own pulls": {"plain": (900, 20)},
    "Cooperation has less regret": {"independent": (900, 20)},
    "The excess over central UCB": {"dducb": (1000, 100)},
    "The regret of DDUCB as analysed": {"analysed": (400_000, 20)},
    "A message has O(K) values": {"values_per_message": 35},
}


@pytest.mark.parametrize("start", CONTRADICTIONS)
def test_contradicted_everywhere_somewhere_nowhere(start: str) -> None:
    against = CONTRADICTIONS[start]
    assert claim(start, {}, {}).verdict == HOLDS
    assert claim(start, against, against).verdict == FAILS
    mixed = claim(start, {}, against)
    assert mixed.verdict == DEPENDS
    assert [outcome.confirmed for outcome in mixed.outcomes] == [True, False]


def test_a_rule_for_everything() -> None:
    untested = [text for text, _, _ in RULES if not text.startswith(tuple(CONTRADICTIONS))]
    assert [text.split()[0] for text in untested] == ["Growth", "C"]  # the tests below


def test_not_told_apart_depends() -> None:
    noisy = {"coop-ucb 2": (1000.5, 20), "noise": {"coop-ucb 2": 5.0}}
    found = claim("DDUCB has less regret than coop-UCB", noisy, noisy)
    assert found.verdict == DEPENDS
    assert [outcome.confirmed for outcome in found.outcomes] == [None, None]


def test_similar_means_similar_and_better() -> None:
    far = {"coop-ucb 1.001": (26_000, 18_900)}  # better, but by 13 %
    assert claim("coop-UCB with γ = 1.001", far, far).verdict == FAILS


def test_growth_is_compared_between_graphs_of_equal_size() -> None:
    assert claim("Growth with ln T", {}, {}).verdict == HOLDS
    # Lai–Robbins grows by 160 ln 2 = 111 after round 5000.
    assert claim("Growth with ln T", {"dducb": (1000, 130)}, {}).verdict == HOLDS
    assert claim("Growth with ln T", {"dducb": (1000, 132)}, {}).verdict == FAILS
    assert claim("Growth with ln T", {}, {"dducb": (1000, 132)}).verdict == FAILS
    alone = judge([make_played("cycle-100")])
    assert not any(claim.text.startswith("Growth with ln T") for claim in alone)


def test_accelerated_mixing_is_as_precise_as_promised() -> None:
    found = claim("C accelerated steps", {}, {})
    assert found.outcomes[0].evidence == (
        "N × error 0.044 after C = 164 steps (ε = 0.045); unaccelerated C = 5847"
    )


def test_evidence_has_the_numbers() -> None:
    first = claim("DDUCB has less regret than coop-UCB", {}, {}).outcomes[0]
    assert first.evidence == "DDUCB − coop-UCB, γ = 1.001 = -28700 (p < 0.001)"
    theorem = claim("The regret of DDUCB as analysed", {}, {})
    assert theorem.outcomes[0].evidence.endswith("bound 353796, vacuous")
    assert theorem.outcomes[1].evidence.endswith("bound 121476")


def test_wasted_pulls() -> None:
    played = make_played(dducb=(1000, 500))
    assert wasted(played, "dducb") == pytest.approx([500 / (100 * 5000 * 0.2)] * 5)
