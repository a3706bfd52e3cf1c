"""The paper's claims about its experiments, each with the rule that judges it by the runs.

All thresholds are here, and the evidence shows the numbers, so that readers can apply thresholds
of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coopbandits import theory
from coopbandits.core.contract import Vector
from coopbandits.core.policies import DDUCB
from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.settings import ANALYSED, PROBLEM
from coopbandits.experiments.paper.verdicts import (
    Claim,
    Outcome,
    all_of,
    at_most,
    differences,
    lower_everywhere,
)
from coopbandits.network import Network
from coopbandits.results.statistics import mean_text, number

COOP_UCB = ("coop-ucb 2", "coop-ucb 1.01", "coop-ucb 1.001")

HORIZONTAL = 0.01
"""A curve is almost horizontal if at most this share of the later half's pulls is wasted."""
NOT_LEARNED = 0.05
"""A policy that wastes more than this share of the later half has not learned the best arm."""
SIMILAR = 0.05
"""Regrets that differ by at most this share are very similar."""
SETTLED = 0.05
"""An excess that grows by at most this share in the later half does not depend on time."""

Measure = Callable[[Played, str], Vector]
Rule = Callable[[Sequence[Played]], tuple[Outcome, ...]]


def judge(played: Sequence[Played]) -> list[Claim]:
    """Apply every rule to the runs; claims that need other figures are left out."""
    claims = [Claim(text, where, rule(played)) for text, where, rule in RULES]
    return [claim for claim in claims if claim.outcomes]


def _lower(*pairs: tuple[str, str], measure: Measure = Played.regret) -> Rule:
    return lambda played: lower_everywhere(played, pairs, measure)


def _each(look: Callable[[Played], tuple[bool | None, str]]) -> Rule:
    """Make a rule that judges every figure separately."""
    return lambda played: tuple(Outcome(one.figure.name, *look(one)) for one in played)


def wasted(one: Played, key: str) -> Vector:
    """Return the share of the later half's pulls that went to wrong arms, run by run."""
    pulls = one.figure.network.num_agents * (one.result.horizon - one.middle)
    return one.growth(key) / (pulls * float(PROBLEM.gaps.max()))


def _horizontal(one: Played) -> tuple[bool | None, str]:
    shares = {key: wasted(one, key) for key in ("dducb", "unaccelerated")}
    confirmed = all_of(at_most(share, HORIZONTAL) for share in shares.values())
    return confirmed, _wasted_text(one, shares, max)


def _not_learned(one: Played) -> tuple[bool | None, str]:
    shares = {key: wasted(one, key) for key in COOP_UCB}
    learned = [at_most(share, NOT_LEARNED) for share in shares.values()]
    confirmed = all_of(None if answer is None else not answer for answer in learned)
    return confirmed, _wasted_text(one, shares, min)


def _wasted_text(one: Played, shares: dict[str, Vector], worst: Callable[..., str]) -> str:
    """Describe the line that wastes most or least, whichever is evidence against the claim."""
    key = worst(shares, key=lambda key: float(shares[key].mean()))
    label = next(line.label for line in one.lines if line.key == key)
    return f"{label} wastes {mean_text(100 * shares[key])} % of pulls after round {one.middle}"


def _similar(played: Sequence[Played]) -> tuple[Outcome, ...]:
    compared = differences(played, [("coop-ucb 1.001", "coop-ucb 1.01")])
    outcomes = []
    for one, pair in zip(played, compared, strict=True):
        share = pair.sample / one.regret("coop-ucb 1.01").mean()
        similar = all_of([at_most(share, SIMILAR), at_most(-share, SIMILAR)])
        text = f"{pair}, that is {mean_text(100 * share)} %"
        outcomes.append(Outcome(one.figure.name, all_of([similar, pair.lower]), text))
    return tuple(outcomes)


def _excess_settles(one: Played) -> tuple[bool | None, str]:
    excess = float((one.regret("dducb") - one.regret("central")).mean())
    growth = one.growth("dducb") - one.growth("central")
    text = f"{number(excess)} more than central UCB, of that {mean_text(growth)} after round"
    return at_most(growth, SETTLED * excess), f"{text} {one.middle}"


def _below_theorem(one: Played) -> tuple[bool | None, str]:
    network, horizon = one.figure.network, one.result.horizon
    bound = theory.finite_time_bound(PROBLEM, network, ANALYSED, horizon)
    vacuous = theory.is_vacuous(bound, PROBLEM, network, horizon)
    regret = one.regret("analysed")
    text = f"{mean_text(regret)}, bound {number(bound)}" + (", vacuous" if vacuous else "")
    return at_most(regret, bound), text


def _messages(one: Played) -> tuple[bool | None, str]:
    sent = one.result.values_sent / one.result.dataset["messages_sent"]
    wanted = [i for i, line in enumerate(one.lines) if line.key in ("dducb", *COOP_UCB)]
    sizes = np.unique(sent.values[wanted])
    numbers = " or ".join(f"{size:g}" for size in sizes)
    text = f"{numbers} values per message, 2K = {2 * PROBLEM.num_arms}"
    return bool((sizes == 2 * PROBLEM.num_arms).all()), text


def _mixes(one: Played) -> tuple[bool | None, str]:
    network, epsilon = one.figure.network, DDUCB().epsilon
    steps, plain = network.mixing_rounds(), network.mixing_rounds(accelerated=False)
    error = network.num_agents * _chebyshev_error(network, steps)
    text = f"N × error {error:.3f} after C = {steps} steps (ε = {epsilon:.3f}); unaccelerated"
    return error <= epsilon and steps < plain, f"{text} C = {plain}"


def _chebyshev_error(network: Network, steps: int) -> float:
    """Return ‖q_C(P) − 11ᵀ/N‖₂, the largest |T_C(λ_j/λ)|/T_C(1/λ) over j ≥ 2."""
    others = np.linalg.eigvalsh(network.matrix.toarray())[:-1] / network.lambda2
    largest = np.abs(np.cos(steps * np.arccos(np.clip(others, -1.0, 1.0)))).max()
    return float(largest / math.cosh(steps * math.acosh(1 / network.lambda2)))


def _same_factor(played: Sequence[Played]) -> tuple[Outcome, ...]:
    """Compare graphs with the same number of agents, which share their tapes."""
    found = {one.figure.name: one for one in played}
    if not {"cycle-100", "grid-100"} <= found.keys():
        return ()
    cycle, grid = found["cycle-100"], found["grid-100"]
    difference = cycle.growth("dducb") - grid.growth("dducb")
    ends = (cycle.middle, cycle.result.horizon)
    first, last = (theory.lai_robbins(PROBLEM, cycle.figure.network, end) for end in ends)
    close = all_of(at_most(sign * difference, last - first) for sign in (1, -1))
    text = f"growth after round {cycle.middle} differs by {mean_text(difference)}"
    return (Outcome("cycle-100 − grid-100", close, text),)


RULES: tuple[tuple[str, str, Rule], ...] = (
    (
        "DDUCB has less regret than coop-UCB at every γ tried",
        "Experiments",
        _lower(*(("dducb", key) for key in COOP_UCB)),
    ),
    (
        "DDUCB's curves are almost horizontal after a few stages",
        "Experiments",
        _each(_horizontal),
    ),
    (
        "At the end coop-UCB's curves still rise faster than DDUCB's",
        "Experiments",
        _lower(*(("dducb", key) for key in COOP_UCB), measure=Played.growth),
    ),
    (
        "By then coop-UCB has not learned which arm is best",
        "Experiments",
        _each(_not_learned),
    ),
    (
        "coop-UCB with γ = 1.001 and 1.01 is very similar, the smaller slightly better",
        "Appendix, experiments",
        _similar,
    ),
    (
        "DDUCB performs better than the earlier algorithms, coop-UCB2 included",
        "Abstract, related work",
        _lower(*(("dducb", key) for key in (*COOP_UCB, "coop-ucb2"))),
    ),
    (
        "coop-UCB2, which knows less of the graph, has more regret than coop-UCB",
        "Related work",
        _lower(("coop-ucb 1.01", "coop-ucb2")),
    ),
    (
        "Accelerated mixing lowers the regret (here at the same C, as plotted)",
        "Main contributions",
        _lower(("dducb", "unaccelerated")),
    ),
    (
        "Reading own pulls at once lowers the regret",
        "Remark on variants",
        _lower(("dducb", "plain")),
    ),
    (
        "Cooperation has less regret than N agents that do not communicate",
        "Remark on the lower bound",
        _lower(("dducb", "independent")),
    ),
    (
        "The excess over central UCB does not depend on time",
        "Algorithm",
        _each(_excess_settles),
    ),
    (
        "Growth with ln T does not depend on the graph (here that of the later half)",
        "Main contributions",
        _same_factor,
    ),
    (
        "The regret of DDUCB as analysed is below the bound of Theorem 1",
        "Theorem 1",
        _each(_below_theorem),
    ),
    (
        "C accelerated steps average to within ε/N; without acceleration C is larger",
        "Lemma on acceleration",
        _each(_mixes),
    ),
    (
        "A message has O(K) values, as many as with coop-UCB",
        "Main contributions",
        _each(_messages),
    ),
)
