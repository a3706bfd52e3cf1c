"""Findings in the authors' published code, measured on simulators of our own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.mixing import mixing_rounds
from coopbandits.experiments.audit.coop_ucb import play_coop_ucb, play_coop_ucb_in_turns
from coopbandits.experiments.audit.dducb import Deviations
from coopbandits.experiments.audit.finding import Finding, Measurement
from coopbandits.experiments.audit.matrices import (
    epsilon_c_from_rows,
    inverse_degree_matrix,
    second_eigenvalue,
)
from coopbandits.experiments.audit.setup import AuditSetup, Claim, Measure
from coopbandits.network import Network
from coopbandits.theory import epsilon_c

CODE = "authors' code"
GAMMA = 1.01
COOP_UCB = f"coop-ucb:gamma={GAMMA}"


def regrets(deviations: Deviations) -> Measure:
    """Return a measure of what deviations cost in regret, on both graphs."""
    return lambda setup: tuple(setup.deviating(graph, deviations) for graph in setup.graphs)


def whole_mix(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Mix C steps in every round, and measure again with the outcome read in the same round."""
    rounds = setup.setting(setup.cycle).network.mixing_rounds()
    at_once = setup.deviating(setup.cycle, Deviations(one_round_stages=True))
    in_stages = regrets(Deviations(whole_mix_every_round=True))(setup)
    return (
        Measurement.exact(f"messages per link and round on {setup.cycle}", rounds, 1),
        *in_stages,
        replace(at_once, quantity=f"{at_once.quantity} if read in the same round too"),
    )


def grid_matrix(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Inspect the matrix with D^{-1/2}, and play with it."""
    network = Network.from_spec(setup.grid)
    matrix = inverse_degree_matrix(network)
    sums, size = matrix.sum(axis=1), network.num_agents
    rounds = mixing_rounds(size, second_eigenvalue(matrix), 1 / 22)
    return (
        Measurement.exact(f"smallest row sum on {setup.grid}", sums.min(), 1),
        Measurement.exact(f"largest row sum on {setup.grid}", sums.max(), 1),
        Measurement.exact(f"C on {setup.grid}", rounds, network.mixing_rounds()),
        setup.deviating(setup.grid, Deviations(inverse_degrees=True)),
    )


def turns(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Play coop-UCB agent after agent."""
    setting = setup.setting(setup.cycle)
    arms = play_coop_ucb_in_turns(setting, GAMMA, epsilon_c(setting.network))
    agents, resolved = setting.network.num_agents, setup.regret(setup.cycle, COOP_UCB)
    return (
        Measurement.exact(f"messages per link and round on {setup.cycle}", agents, 1),
        Measurement.paired(f"{COOP_UCB}: regret on {setup.cycle}", setting.regret(arms), resolved),
    )


def epsilon_rows(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Use rows as eigenvectors, and play coop-UCB with the resulting ε_c."""
    measured = []
    for graph in setup.graphs:
        setting = setup.setting(graph)
        wrong, right = epsilon_c_from_rows(setting.network), epsilon_c(setting.network)
        regret = setting.regret(play_coop_ucb(setting, GAMMA, wrong))
        measured += [
            Measurement.exact(f"smallest ε_c on {graph}", wrong.min(), right.min()),
            Measurement.exact(f"largest ε_c on {graph}", wrong.max(), right.max()),
            Measurement.paired(
                f"{COOP_UCB}: regret on {graph}", regret, setup.regret(graph, COOP_UCB)
            ),
        ]
    return tuple(measured)


def realised_regret(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Score the same runs both ways."""
    arms = setup.setting(setup.cycle).problem.num_arms
    measured = []
    for graph in setup.graphs:
        result = setup.simulate(graph, "dducb", setup.horizon, [min(arms, setup.horizon)])
        realised = result.realized_regret.values[0]
        regret: Vector = result.regret.values[0, :, -1]
        measured += [
            Measurement.paired(f"regret on {graph}", realised[:, -1] - realised[:, 0], regret),
            Measurement.exact(
                f"its standard deviation over runs on {graph}",
                np.std(realised[:, -1] - realised[:, 0]), float(np.std(regret)),
            ),
        ]  # fmt: skip
    return tuple(measured)


def together(setup: AuditSetup) -> tuple[Measurement, ...]:
    """Play DDUCB with all deviations, on the grid with its matrix too."""
    all_of_them = {
        "start_over_arms": True, "time_by_agents": True, "shared_totals": True,
        "whole_mix_every_round": True,
    }  # fmt: skip
    return (
        setup.deviating(setup.cycle, Deviations(**all_of_them)),
        setup.deviating(setup.grid, Deviations(**all_of_them, inverse_degrees=True)),
    )


CLAIMS: tuple[Claim, ...] = (
    (
        Finding(
            "start-weight",
            CODE,
            "α and a start at ζ/K and z/K",
            "ζ/N and z/N, as printed in the paper",
            "During the first stage each own sample counts as N/K samples.",
        ),
        regrets(Deviations(start_over_arms=True)),
    ),
    (
        Finding(
            "whole-mix",
            CODE,
            "a whole mix of C steps is made in every round",
            "one step per round, as the model allows",
            "C times the messages are sent; what is mixed in a stage gets C² steps and not C.",
        ),
        whole_mix,
    ),
    (
        Finding(
            "counted-twice",
            CODE,
            "α and δ are one array, so own pulls that are added to α stay in δ",
            "α is a copy of δ",
            "Every agent counts its own pulls twice for ever, and no two agents agree on totals.",
        ),
        regrets(Deviations(shared_totals=True)),
    ),
    (
        Finding(
            "time",
            CODE,
            "s grows by N in every round",
            "s grows by 1 with every own pull, as the paper's remark on variants says",
            "ln s counts pulls that nobody has read; a logarithm hardly notices.",
        ),
        regrets(Deviations(time_by_agents=True)),
    ),
    (
        Finding(
            "grid-matrix",
            CODE,
            "the matrix of irregular graphs is made with D^(−1/2)",
            "P = I − (D − A)/(δ_max + 1), what the paper's formula with D^(1/2) comes to",
            "Rows do not sum to 1: values converge to averages weighted by degrees, and slowly.",
        ),
        grid_matrix,
    ),
    (
        Finding(
            "turns",
            CODE,
            "coop-UCB mixes N times per round, and agents act one after another",
            "all agents pull, then there is one mixing step",
            "The rival has N times the messages, and agents know what was done in their round.",
        ),
        turns,
    ),
    (
        Finding(
            "epsilon-c",
            CODE,
            "ε_c is computed from unsorted rows of the matrix of eigenvectors",
            "columns of a symmetric eigensolver",
            "Agents get each other's ε_c mixed up; the mean over agents stays right.",
        ),
        epsilon_rows,
    ),
    (
        Finding(
            "realised-regret",
            CODE,
            "realised regret is shown, and the K initial pulls are left out",
            "pseudo-regret with initial pulls in; realised regret is kept apart",
            "The luck of the rewards blurs the curves, and they begin too low.",
        ),
        realised_regret,
    ),
    (
        Finding(
            "together",
            CODE,
            "all deviations in DDUCB at once",
            "none of them",
            "This is how far DDUCB's published curves may be from those of the algorithm.",
        ),
        together,
    ),
)
