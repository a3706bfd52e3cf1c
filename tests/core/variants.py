"""Every variant of DDUCB under a readable name."""

from __future__ import annotations

from coopbandits.core import DDUCB

VARIANTS: dict[str, DDUCB] = {
    "default": DDUCB(),
    "plain": DDUCB(own_pulls=False),
    "unaccelerated": DDUCB(accelerated=False),
    "unaccelerated-plain": DDUCB(accelerated=False, own_pulls=False),
    "neighbors": DDUCB(neighbor_pulls=True),
    "neighbors-unaccelerated": DDUCB(neighbor_pulls=True, accelerated=False),
    "remix": DDUCB(remix=True),
    "remix-plain": DDUCB(remix=True, own_pulls=False),
    "remix-unaccelerated": DDUCB(remix=True, accelerated=False),
    "remix-neighbors": DDUCB(remix=True, neighbor_pulls=True),
    "budget-1": DDUCB(values_per_message=1),
    "budget-1-plain": DDUCB(values_per_message=1, own_pulls=False),
    "budget-4": DDUCB(values_per_message=4),
    "budget-4-plain-unaccelerated": DDUCB(
        values_per_message=4, own_pulls=False, accelerated=False
    ),
    "budget-5": DDUCB(values_per_message=5),
    "budget-2K": DDUCB(values_per_message=6),
    "budget-over-2K": DDUCB(values_per_message=50),
    "short": DDUCB(mixing_rounds=2),
    "short-plain": DDUCB(mixing_rounds=2, own_pulls=False),
    "short-neighbors": DDUCB(mixing_rounds=3, neighbor_pulls=True),
    "short-remix-plain": DDUCB(mixing_rounds=3, remix=True, own_pulls=False),
    "short-budget": DDUCB(mixing_rounds=3, values_per_message=4),
    "short-unaccelerated": DDUCB(mixing_rounds=2, accelerated=False),
    "one-step": DDUCB(mixing_rounds=1),
    "long": DDUCB(mixing_rounds=17),
    "long-plain": DDUCB(mixing_rounds=17, own_pulls=False),
    "bonus-4": DDUCB(bonus_factor=4.0),
    "bonus-small": DDUCB(bonus_factor=0.1),
    "eta-epsilon": DDUCB(eta=1.5, epsilon=0.02),
    "agents-between": DDUCB(num_agents=(3, 20)),
    "agents-between-plain": DDUCB(num_agents=(4, 12), own_pulls=False),
    "agents-between-neighbors": DDUCB(num_agents=(2, 15), neighbor_pulls=True),
    "agents-between-budget": DDUCB(num_agents=(4, 12), values_per_message=4),
    "lambda-above": DDUCB(lambda_bound=0.95),
    "lambda-above-plain": DDUCB(lambda_bound=0.95, own_pulls=False),
    "lambda-above-remix": DDUCB(lambda_bound=0.95, remix=True, bonus_factor=0.5),
}  # fmt: skip
