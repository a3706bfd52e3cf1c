"""Regret bounds as functions of problem, network, policy and horizon."""

from coopbandits.theory.assumptions import as_analysed, stage_rounds
from coopbandits.theory.coop_ucb import coop_ucb_a, coop_ucb_b, coop_ucb_bound
from coopbandits.theory.dducb import (
    asymptotic_shape,
    finite_time_bound,
    instance_independent_shape,
    sharper_finite_time_bound,
)
from coopbandits.theory.epsilon_c import epsilon_c
from coopbandits.theory.forgetting import Memory, memory
from coopbandits.theory.references import (
    is_vacuous,
    lai_robbins,
    lower_bound_shape,
    worst_arm_regret,
)
from coopbandits.theory.table import BoundRow, table

__all__ = [
    "BoundRow",
    "Memory",
    "as_analysed",
    "asymptotic_shape",
    "coop_ucb_a",
    "coop_ucb_b",
    "coop_ucb_bound",
    "epsilon_c",
    "finite_time_bound",
    "instance_independent_shape",
    "is_vacuous",
    "lai_robbins",
    "lower_bound_shape",
    "memory",
    "sharper_finite_time_bound",
    "stage_rounds",
    "table",
    "worst_arm_regret",
]
