"""Staged mixing by agents that are told neither N nor λ: first they find out, then they mix.

Until then an agent goes by its own pulls alone, and sends what the estimators of `core/estimate`
send: a survey, and a power iteration where that is wanted. All agents are done in the same round,
in which the stages begin; the own pulls made so far take the place of the initial ones.

All three are functions on the fields of one agent, and `s.me.phase` says whose turn it is. An agent
cannot continue where a message is missing before it mixes, or where what it found leaves no mixing:
compiled, its estimate is NaN from then on, and its machine says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.aggregate.fields import TIME, FieldMachine, Sizes
from coopbandits.core.aggregate.messages import check_vectors
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.estimate.spectral import (
    POWER,
    hear_power,
    inflated_lambda,
    start_power,
    write_power,
)
from coopbandits.core.estimate.survey import (
    FARTHEST,
    HEAD,
    SURVEY,
    check_complete,
    check_survey,
    exact_room,
    has_surveyed,
    hear_survey,
    roomy,
    start_survey,
    surveyed_lambda,
    told_tags,
    with_room,
    without_room,
    write_survey,
)
from coopbandits.core.mixing import rounds_needed

if TYPE_CHECKING:
    from coopbandits.core.aggregate.staged_mixing import StagedMixing

SURVEYS, ITERATES, MIXES, STUCK = range(4)
"""Phases."""

TOLD, CERTAIN, HEURISTIC = range(3)
"""Where the bound on λ comes from."""


def finding_fields(sizes: Sizes) -> dict[str, Any]:
    room = max(1, sizes.agents)
    settings = dict.fromkeys(("phase", "finds_agents", "finds_lambda", "told_steps", "plain"), int)
    return {
        "tags": room, "new_tags": room, **SURVEY, **POWER, **settings, "own_weight": float,
        "epsilon": float,
    }  # fmt: skip


def start_finding(s: Any, spec: StagedMixing, view: LocalView) -> None:
    """Begin with the survey; what is told stands where it would be."""
    start_survey(s, view)
    start_power(s, view)
    s.me.finds_agents = int(spec.num_agents == "estimate")
    s.me.finds_lambda = {"estimate": CERTAIN, "heuristic": HEURISTIC}.get(
        str(spec.lambda_bound), TOLD
    )
    if not s.me.finds_agents:
        s.me.fewest_agents, s.me.most_agents = spec.bounds(view.num_agents)
    s.me.plain, s.me.told_steps = int(not spec.accelerated), spec.mixing_rounds or 0
    if s.me.finds_lambda == TOLD and (spec.accelerated or not s.me.told_steps):
        s.me.lambda_bound = spec.known_lambda(view.lambda_bound)
    s.me.epsilon = spec.epsilon


@cache
def finding_out(
    observe_mixing: Callable[..., None],
    message_mixing: Callable[..., int],
    receive_mixing: Callable[..., None],
    estimate_mixing: Callable[..., None],
    prepare_mixing: Callable[..., None],
    next_stage: Callable[..., None],
) -> dict[str, Callable[..., Any]]:
    """Return functions of agents that find out, and then mix with the given ones."""

    def observe(s: Any, pull: Any) -> None:
        if s.me.phase >= MIXES:
            observe_mixing(s, pull)
        else:
            rows.add(s.fresh, pull)

    def prepare(s: Any) -> None:
        if s.me.phase == MIXES:
            prepare_mixing(s)

    def message(s: Any, link: int, out: Any) -> int:
        if s.me.phase == SURVEYS:
            return int(write_survey(s, out))
        if s.me.phase == ITERATES:
            return int(write_power(s, out))
        return int(message_mixing(s, link, out)) if s.me.phase == MIXES else 0

    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        if s.me.phase == MIXES:
            receive_mixing(s, inbox, lengths)
            return
        for link in range(lengths.size):
            if lengths[link] == 0:
                s.me.phase = STUCK
        if s.me.phase == SURVEYS:
            hear_survey(s, inbox, lengths)
            if has_surveyed(s):
                s.me.phase = ITERATES if s.me.finds_lambda == HEURISTIC else MIXES
        elif s.me.phase == ITERATES:
            hear_power(s, inbox, lengths, int(s.extremes[FARTHEST]), surveyed_lambda(s))
            if s.me.iterated_lambda >= 0.0:
                s.me.phase = MIXES
        if s.me.phase == MIXES:
            begin_mixing(s)
            if s.me.rounds >= s.me.initial_rounds:
                next_stage(s)

    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        if s.me.phase == MIXES:
            estimate_mixing(s, totals, certain, about)
        else:
            rows.copy(totals, s.fresh)
            if s.me.phase == STUCK:
                about[TIME] = math.nan

    return {
        "observe": observe, "prepare": prepare, "message": message, "receive": receive,
        "estimate": estimate,
    }  # fmt: skip


def begin_mixing(s: Any) -> None:
    """Plan the stages by what was found, and take the own pulls for the initial ones."""
    bound = s.me.lambda_bound
    if s.me.finds_lambda > TOLD:
        bound = surveyed_lambda(s)
    if s.me.finds_lambda == HEURISTIC:
        bound = min(bound, inflated_lambda(s))
    if s.me.finds_agents == 1:
        s.me.fewest_agents = s.me.most_agents = float(s.me.num_tags)
    steps = s.me.told_steps
    if steps == 0 and bound < 1.0:
        steps = rounds_needed(s.me.most_agents, bound, s.me.epsilon, s.me.plain == 0)
    s.me.sends = s.fresh.size * steps
    s.me.stage_rounds = max(steps, -(-s.me.sends // s.me.budget))
    if not bound < 1.0 or (1.0 - s.me.decay) * 2.0 * s.me.stage_rounds > 1.0 + 1e-9:
        s.me.phase = STUCK
    s.me.lambda_bound = 0.0 if s.me.plain == 1 else bound
    s.me.rounds = s.me.surveyed + s.me.iterated
    s.me.initial_rounds = max(s.me.arms, s.me.rounds)
    for w in range(s.fresh.size):
        s.settled[w] = s.fresh[w] / s.me.most_agents


class FindsOut(FieldMachine):
    """An agent that checks what it is sent until it mixes, and has room for all tags."""

    spec: StagedMixing

    def __init__(self, spec: StagedMixing, view: LocalView, registers: Any) -> None:
        super().__init__(spec, view, registers)
        self.view = view
        self._fit()

    @property
    def is_mixing(self) -> bool:
        return bool(self.state.me.phase == MIXES)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in what arrived; what is done makes way for what comes next."""
        s = self.state
        if s.me.phase == MIXES:
            super().receive(messages)
            return
        if s.me.phase == SURVEYS:
            check_survey(s, self.view, messages)
            self.state = with_room(s, s.me.num_tags + told_tags(messages))
            self._fit()
        else:
            check_complete(self.view, messages)
            check_vectors(messages, 1)
        FieldMachine.receive(self, messages)
        if self.state.me.phase == STUCK:
            self.spec.check_found(self.state.me.lambda_bound, self.state.me.stage_rounds)

    def _fit(self) -> None:
        """Make room in messages for as many tags as there is room for."""
        self.most = max(self.most, HEAD + self.state.tags.size)
        if self._out.size < self.most:
            self._out = np.zeros(self.most)
            self._inbox = np.zeros((len(self.neighbors), self.most))

    def check_state(self, values: State) -> None:
        """Check that a mixing agent has a plan, and another one has not begun to mix."""
        super().check_state(values)
        phase, stage = values["phase"], values["stage_rounds"]
        if not SURVEYS <= phase <= MIXES or (phase == MIXES) != (stage > 0):
            raise InputError(
                f"state is in phase {phase} of {MIXES}, with stages of {stage} rounds; they begin "
                "when all estimates are done, and no sooner"
            )

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Check as staged mixing does; before that a message is checked as it is received."""
        if self.is_mixing:
            super().check_claims(message, claims, now)

    def reweighted(self, state: State) -> State:
        """Keep the own pulls; the survey asks for the weights."""
        own = self.export_state()
        return state | {"extremes": own["extremes"]}

    def export_state(self) -> State:
        return without_room(super().export_state())

    def restore_state(self, state: State) -> None:
        before, state = self.state, roomy(state)
        self.state = exact_room(before, len(state.get("tags", ())))
        self._fit()
        try:
            super().restore_state(state)
        except InputError:
            self.state = before
            raise
