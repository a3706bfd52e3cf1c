"""What the baseline plays: worlds, and the policies in each.

A covering set instead of a product: every policy, every aggregation with every index, every setting
away from its default, and every kind of fault, clock, problem and model occurs somewhere.
`test_plays` compares that with the registries.

Gaps between means are sums of powers of two, so that regret does not depend on the order of
summation. Arms do not depend on the processor and on versions of numpy and numba as long as two
arms' indices never differ by rounding alone without being a tie (`core.choice.best_arm` ties what
differs by less than 1e-9). Where a play turns out to depend on them, change its world.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import coopbandits as cb
from coopbandits.core.index import LINEAR_INDICES, UNIT_REWARDS
from coopbandits.core.policy import CentralPolicy
from coopbandits.core.recommend import obstacle
from coopbandits.core.registry import AGGREGATIONS, CENTRAL_AGGREGATIONS, EXAMPLES, INDICES
from coopbandits.literature.models import MODELS

World = dict[str, Any]
"""Arguments of `simulate` as text, with changes of the problem (drift, sites, subsets) beside them;
for models of the literature the arguments of `Played`."""

BASE: World = {"problem": "gaussian:0.75,1,0.25", "graph": "grid:2x3", "horizon": 60, "runs": 1}
UNIT = {"problem": "bernoulli:0.25,0.75,0.5"}
LINEAR = {"problem": "linear:theta=0.5,-0.25,1,num_arms=4,sigma=0.5"}
DISJOINT = {"problem": "linear:theta=1,0/0,1/0.5,0.5,features=gaussian,sigma=0.5"}
LOG = "logged:file={here}/log.csv,time=time"
SITES = {"sites": "groups=1,0.5,0.25/0.5,1,0.25"}
STEPS = {"drift": "steps=20:1,0.25,0.5/40:0.25,0.5,1"}
MODEL_WORLD: World = {
    "means": [0.25, 0.875, 0.5, 0.75], "agents": 3, "horizon": 100, "runs": 2, "seed": 0,
}  # fmt: skip

EXAMPLES_OF = {"server-totals": "server-totals:growth=0.25"}
"""Aggregations with settings that have no default."""

FIELD = (
    "dducb", "dec-ts", "gossip-ts", "tree-ts", "flood-ucb", "ledger-ts", "mp-ucb:hop_limit=2",
    "resilient-ucb", "gosine",
)  # fmt: skip
"""One policy for every way in which statistics travel."""

FEW = ("independent-ucb", "tree-ucb", "flood-ts:sigma=estimate", "dducb")
FREE = ("dec-ts", "gossip-ts", "tree-ts", "flood-ucb", "ledger-ts", "resilient-ucb", "gosine")
"""Those of them that can be played on own clocks."""

OTHERS = (
    "ucb-network", "dec-ucb", "dpe2", "gse:horizon=20000", "exp3-coop", "coop-se", "central-ts",
)  # fmt: skip

SETTINGS = (
    "dducb:eta=3,epsilon=0.03125", "dducb:bonus_factor=4", "dducb:accelerated=false",
    "dducb:own_pulls=false", "dducb:neighbor_pulls=true", "dducb:remix=true",
    "dducb:remix=true,own_pulls=false", "dducb:values_per_message=1,mixing_rounds=3",
    "dducb:values_per_message=5", "dducb:mixing_rounds=9", "dducb:num_agents=3..20",
    "dducb:lambda_bound=0.95", "dducb:lambda_bound=heuristic",
    "dducb:num_agents=estimate,lambda_bound=estimate", "dducb:discount=0.9375",
    "coop-ucb:gamma=2,discount=0.9375", "coop-ucb2:gamma=2", "coop-ucb2:gamma=2,discount=0.9375",
    "coop-ucl:gamma=1.5,prior_mean=0.5,prior_sigma=0.5,discount=0.9375",
    "dec-ts:discount=0.9375", "dec-bayes-ucb:discount=0.9375", "ucb-network:constant=2",
    "ucb-network:exploring=true", "ucb-network:fair=true", "mp-ucb:hop_limit=1,constant=2",
    "mp-ucb:hop_limit=5", "mp-ucb:hop_limit=2,wait=3", "gosine:blocking=true,constant=4",
    "dec-ucb:constant=2", "dec-kl-ucb:beta=0.25", "coop-se:horizon=500", "coop-se:lazy=0.5",
    "exp3-coop:hop_limit=2,eta=0.125", "resilient-ucb:liars=0,kappa=2,constant=2",
    "liar:constant=2", "gossip-ucb:constant=2", "fed-ucb:epsilon=4,horizon=60,constant=2",
    "gse:horizon=60,up=0.5,spread=1", "gossip-ts:sigma=estimate", "gossip-ts:discount=0.9375",
    "tree-ts:sigma=estimate", "tree-ts:discount=0.9375", "tree-ts:window=20", "tree-ts:lazy=0.5",
    "tree-ts:spread=0.5", "tree-ts:spread=estimate", "tree-ucb:constant=0.5,discount=0.9375",
    "tree-ucb:window=20", "tree-ucb:lazy=0.5", "tree-ucb:spread=0.5", "tree-ucb:spread=estimate",
    "tree-ucb:lazy=0.5,spread=estimate", "flood-ts:sigma=estimate", "flood-ts:discount=0.9375",
    "flood-ts:window=20", "flood-ts:lazy=0.5", "flood-ts:spread=0.5", "flood-ts:spread=estimate",
    "flood-ucb:constant=0.5,discount=0.9375", "flood-ucb:window=20", "flood-ucb:lazy=0.5",
    "flood-ucb:spread=0.5", "flood-ucb:spread=estimate", "ledger-ts:sigma=estimate",
    "ledger-ts:discount=0.9375", "ledger-ucb:constant=0.5,discount=0.9375",
    "independent-ucb:constant=0.5,discount=0.9375", "independent-ucb:window=20",
    "independent-ts:discount=0.9375", "independent-ts:window=20",
    "central-ucb:constant=0.5,discount=0.9375", "central-ucb:window=20",
    "central-batched-ucb:constant=0.5,discount=0.9375", "central-batched-ucb:window=20",
    "delayed-central-ucb:delay=3,constant=0.5,discount=0.9375",
    "delayed-central-ucb:delay=1,window=20", "central-ts:discount=0.9375", "central-ts:window=20",
    "tree-sums*moss:horizon=60,constant=1", "flooded-totals*top-two:beta=0.25",
    "ledger-sums*epsilon-greedy:constant=1", "tree-sums*kl-ucb:c=3",
    "flooded-totals*inflated-ucb:gamma=2,epsilon_c=closed", "ledger-sums*elimination:horizon=500",
    "tree-sums*robust-ucb:limit=2,moment=1.5,constant=1",
    "tracked-means:epsilon=4,horizon=60*ucb",
)  # fmt: skip
"""Every setting away from its default, and combinations of settings that interact."""

SOURCES = (
    "private:epsilon=4,horizon=200*flood-ucb", "private:epsilon=4,horizon=200*tree-ts",
    "private:epsilon=4,horizon=200*ledger-ucb", "private:epsilon=4,horizon=200*independent-ucb",
    "private:epsilon=4,horizon=200*gossip-ts",
    "truncated:limit=2*flooded-totals*robust-ucb:limit=2", "truncated:limit=2*ledger-ts",
    "truncated:limit=2,moment=1.5*tree-sums*robust-ucb:limit=2,moment=1.5",
)  # fmt: skip
FORGETTING = (
    "tree-ts:window=20", "flood-ucb:window=20", "independent-ucb:window=20",
    "central-ucb:window=20", "tree-ts:discount=0.9375", "flood-ucb:discount=0.9375",
    "ledger-ts:discount=0.9375", "dducb:discount=0.9375", "gossip-ts:discount=0.9375",
)  # fmt: skip
POOLING = (
    "tree-ts:spread=0.25", "tree-ts:spread=estimate", "flood-ucb:spread=0.25",
    "flood-ucb:spread=estimate", "gse:horizon=60,spread=0.25",
)  # fmt: skip
LAZY = ("tree-ts:lazy=0.5", "flood-ucb:lazy=0.5", "tree-ucb:lazy=1,spread=estimate")
POPULATIONS = (
    "resilient-ucb+liar@0", "resilient-ucb+liar:attack=swap@1+liar:mean=2@4", "tree-ts+tree-ucb@2",
    "flood-ucb+flood-ts@0,1+flooded-totals*kl-ucb@5", "dec-ts+coop-ucb2:gamma=2@3",
)  # fmt: skip

FAULTS = (
    "bursts=6..3:0.75", "churn=20..10", "one-way=0.5", "partition=0.5@10..40", "redraw=10:0.5",
    "sleep=0.25", "speeds=4", "crash=0.5@20..30", "join=0.5@15",
    "loss=0.25,sleep=0.125,churn=30..5,crash=0.25@30..40:lost",
)  # fmt: skip
"""Those that have no world of their own below."""

CLOCKS = (
    {"clocks": "regular:ratio=4,gossip=0.5,latency=1.5"},
    {"clocks": "regular:rates=1..2..4..1..1..2"},
    {"clocks": "poisson:rates=1..2..4..1..1..2", "faults": "loss=0.25"},
    {"clocks": "poisson:latency=2,gossip=2"},
)
PROBLEMS = (
    "poisson:means=1,2,1.5", "exponential:means=0.5,1,0.75", "beta:a=2,1,3,b=2,1,1",
    "pareto:shapes=3,2,4,cap=8", "student-t:means=0.5,1,0.75,cap=8",
    "mixture:0.75*gaussian:0.5,1,0.25+0.25*gaussian:1,0.5,0.75", LOG,
)  # fmt: skip


def indices(family: str) -> list[str]:
    """Return the indices without features for any rewards, or those for rewards in [0, 1]."""
    unit = family == "bernoulli"
    found = [kind().suited(family) for kind in INDICES]
    return [each.spelling for each in found if (each.support == UNIT_REWARDS) == unit]


def products(indices: Iterable[str]) -> list[str]:
    """Return every aggregation with each of these indices, unless they do not go together."""
    aggregations = (*AGGREGATIONS, *CENTRAL_AGGREGATIONS)
    names = [EXAMPLES_OF.get(kind.name, kind.name) for kind in aggregations]
    found = []
    for text in [f"{name}*{index}" for index in indices for name in names]:
        try:
            policy = cb.parse_policy(text)
            if isinstance(policy, CentralPolicy):
                policy.make_controller(2, 1.0, 2)
        except cb.InputError:
            continue
        found.append(policy.spelling)
    return found


def linear(settings: str = "") -> list[str]:
    return products([kind.name + settings for kind in LINEAR_INDICES])


def certifying() -> list[str]:
    """Return the policies whose agents can state a confidence."""
    texts = [*EXAMPLES, *products(["ucb", "top-two"])]
    return [text for text in texts if not obstacle(cb.parse_policy(text).parts)]


def with_family() -> list[str]:
    """Return the policies that play another way where rewards are known to be 0 and 1."""
    policies = {text: cb.parse_policy(text) for text in EXAMPLES}
    return [text for text, each in policies.items() if each.suited("bernoulli") != each]


@cache
def worlds() -> dict[str, tuple[World, tuple[str, ...]]]:
    """Return all worlds by name, with what is played there."""
    decentralised = [text for text in EXAMPLES if not cb.parse_policy(text).central]
    free = [text for text in EXAMPLES if not cb.parse_policy(text).needs_common_round]
    found: dict[str, tuple[World, Iterable[str]]] = {
        "plain": ({"runs": 2}, EXAMPLES),
        "0 or 1": ({"runs": 2, **UNIT}, with_family()),
        "settings": ({}, SETTINGS),
        "products": ({"graph": "star:5"}, products(indices("gaussian"))),
        "products, 0 or 1": ({"graph": "star:5", **UNIT}, products(indices("bernoulli"))),
        "shuffled arms": ({"shuffle_arms": True, "runs": 2}, (*FIELD, *OTHERS)),
        "one agent": ({"graph": "path:1"}, (*FIELD, *OTHERS)),
        "metropolis weights": ({"graph": "star:7", "weights": "metropolis"}, FIELD),
        # Landgren's ε_c depends on the choice of eigenvectors where an eigenvalue repeats.
        "simple eigenvalues": (
            {"graph": "path:5"}, ["coop-ucb:gamma=1.01,epsilon_c=landgren"],
        ),
        "sources": (UNIT, SOURCES),
        "sources, lost memories": ({**UNIT, "faults": "crash=0.5@15..25:lost"}, SOURCES),
        "sources, poisson clocks": ({**UNIT, "clocks": "poisson:ratio=2"}, SOURCES[2:5]),
        "populations": ({}, POPULATIONS),
        "populations, loss": ({"faults": "loss=0.25"}, POPULATIONS),
        "loss": ({"faults": "loss=0.25"}, (*decentralised, *LAZY, *POOLING)),
        "delay": ({"faults": "delay=3,loss=0.125"}, (*decentralised, *LAZY, *POOLING)),
        "lost memories": (
            {"faults": "crash=0.5@15..25:lost,crash=0.5@35..40:lost"}, (*FIELD, *OTHERS, *LAZY),
        ),
        "pairs": ({"faults": "pairs=1"}, (*FIELD, "gossip-ucb")),
        "pairs, every second round": ({"faults": "pairs=2"}, ["gossip-ucb", "dec-ucb", "tree-ts"]),
        "graphs": (
            {"graph": "cycle:6|star:6", "faults": "graphs=10:cycle:6|star:6"}, FIELD,
        ),
        **{text: ({"faults": text}, FIELD[1:]) for text in FAULTS},
        "clocks": ({"clocks": "poisson:ratio=10"}, (*free, *LAZY)),
        **{each["clocks"]: (each, FREE) for each in CLOCKS},
        "stop": ({"problem": "gaussian:0.5,1.5,0.25,sigma=0.25", "stop": "0.9"}, certifying()),
        "stop, loss": (
            {
                "problem": "gaussian:0.5,1.5,1.375,sigma=0.25", "stop": "0.9,within=0.25",
                "faults": "loss=0.25",
            },
            certifying(),
        ),
        "steps": (STEPS, (*FIELD, *FORGETTING)),
        "steps, delay": ({**STEPS, "faults": "delay=2"}, FORGETTING),
        "steps, clocks": ({**STEPS, "clocks": "poisson"}, FORGETTING[:7]),
        "ramp": ({"drift": "ramp=10..50:0.25,0.5,1,pieces=4"}, FORGETTING[:6]),
        "switch": ({"drift": "switch_every=15", "faults": "loss=0.25"}, FORGETTING),
        "replay": ({"problem": LOG, "drift": "replay=60,pieces=4"}, FEW),
        "period": ({"drift": "steps=10:1,0.25,0.5,period=20"}, FEW),
        "sites": (SITES, (*FIELD, *POOLING)),
        "spread sites": ({"sites": "spread=0.5,seed=3"}, POOLING),
        "sites, drift": ({**SITES, "drift": "switch_every=25"}, (*POOLING, *FORGETTING[:6])),
        "subsets": ({"subsets": "0,1/1,2"}, (*FIELD, *OTHERS)),
        "subsets, shuffled arms": ({"subsets": "0,1/1,2", "shuffle_arms": True}, FEW),
        **{text: ({"problem": text}, FEW) for text in PROBLEMS},
        "linear": (LINEAR, [*linear(), "tree-ucb", "server-totals:threshold=4*lin-ucb"]),
        "linear, settings": (
            LINEAR,
            [
                "local-sums*lin-ts:prior=2", "tree-sums*lin-ucb:scale=0.5,ridge=2,delta=0.25",
                "flooded-totals*lin-ucb:norm=2,length=2", "tree-sums:discount=0.9375*lin-ts",
                "central-totals:window=20*lin-ucb",
            ],
        ),
        "linear, a model per arm": (DISJOINT, linear(":disjoint=true")),
        "linear, one feature vector for all arms": (
            {"problem": "linear:theta=1,0/0,1/0.5,0.5,features=1,0/1,1/0,2,sigma=0.5"},
            ["tree-sums*lin-ts:disjoint=true", "flooded-totals*lin-ucb:disjoint=true"],
        ),
        "linear, loss": (
            {**LINEAR, "faults": "loss=0.25"},
            ["tree-sums*lin-ts", "flooded-totals*lin-ucb", "ledger-sums*lin-ucb"],
        ),
        "linear, delay": (
            {**LINEAR, "faults": "delay=2"}, ["running-consensus*lin-ts", "ledger-sums*lin-ts"],
        ),
        "linear, clocks": ({**LINEAR, "clocks": "poisson:ratio=4"}, [
            "tree-sums*lin-ts", "flooded-totals*lin-ucb", "ledger-sums*lin-ts",
        ]),
        "linear, sites that drift": (
            {
                **DISJOINT, "sites": "groups=1,0;0,1;0.5,0.5/0,1;1,0;0.5,0.5",
                "drift": "switch_every=20", "subsets": "0,1/1,2",
            },
            ["tree-sums*lin-ts:disjoint=true", "flooded-totals*lin-ucb:disjoint=true", "flood-ucb"],
        ),
        "linear, from a log": (
            {"problem": "linear-log:file={here}/log.csv,context=x,y"},
            ["local-sums*lin-ts:disjoint=true", "tree-sums*lin-ucb:disjoint=true"],
        ),
    }  # fmt: skip
    played = {name: ({**BASE, **world}, tuple(texts)) for name, (world, texts) in found.items()}
    return {**played, "models": (MODEL_WORLD, tuple(MODELS.names()))}
