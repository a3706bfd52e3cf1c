"""Staged mixing by agents that are told neither N nor λ: first they find out, then they mix.

Until then an agent goes by its own pulls alone, and sends what the estimators of `core/estimate`
send. Everybody is done in the same round, in which the stages begin; the own pulls made so far take
the place of the initial ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coopbandits.core.aggregate.aggregation import ContextMachine
from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.estimate.spectral import PowerIteration
from coopbandits.core.estimate.survey import Survey
from coopbandits.core.statistic import Registers

if TYPE_CHECKING:
    from coopbandits.core.aggregate.staged_mixing import StagedMixingMachine

PARTS = ("survey", "power", "mixing")


class SelfEstimatingMachine(ContextMachine):
    """A survey, a power iteration where wanted, and then staged mixing.

    Parameters
    ----------
    view : LocalView
        What the agent may know: its row of P and a random word.
    registers : Registers
        What is added up.
    make_mixing : callable
        Makes the staged mixing from N and a bound on λ.
    heuristic : bool
        Also estimate λ by power iteration, and take that where it is below the guaranteed bound.

    Notes
    -----
    Estimators that have not begun, and the mixing, are None.
    """

    fields = ("own",)

    def __init__(
        self,
        view: LocalView,
        registers: Registers,
        make_mixing: Callable[[int, float], StagedMixingMachine],
        *,
        heuristic: bool,
    ) -> None:
        self.view, self.registers = view, registers
        self.make_mixing, self.heuristic = make_mixing, heuristic
        self.own = registers.zeros()
        self.survey = Survey(view)
        self.power: PowerIteration | None = None
        self.mixing: StagedMixingMachine | None = None

    @property
    def estimator(self) -> Survey | PowerIteration:
        """The estimator under way, or the last one."""
        return self.power or self.survey

    def estimate(self) -> Estimate:
        """Return the own totals, and what the mixing says once there is one."""
        if self.mixing is not None:
            return self.mixing.estimate()
        time = max(2.0, float(self.registers.version(self.own)))
        return self.registers.read(self.own, time=time, num_agents=1.0)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Collect one own pull."""
        if self.mixing is not None:
            self.mixing.observe(arm, reward, context)
        else:
            self.registers.record(self.own, arm, reward, context)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return this round's message of whatever is under way."""
        return (self.mixing or self.estimator).outgoing(neighbor)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand on what arrived; what is done makes way for what comes next."""
        (self.mixing or self.estimator).receive(messages)
        if self.mixing is not None:
            return
        self.registers.age(self.own)
        if not self.estimator.done:
            return
        if self.heuristic and self.power is None:
            self.power = self._iterate()
        else:
            self.mixing = self._begin()

    def share(self) -> Share:
        """Return the own pulls, and what the mixing holds once there is one."""
        return self.registers.share(self.own) if self.mixing is None else self.mixing.share()

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what staged mixing refuses; before that, estimators refuse what they receive."""
        if self.mixing is not None:
            self.mixing.check_claims(message, claims, now)

    def _iterate(self) -> PowerIteration:
        return PowerIteration(self.view, self.survey.diameter, self.survey.lambda_bound)

    def _begin(self) -> StagedMixingMachine:
        """Return the mixing that follows from what was found."""
        bound, rounds = self.survey.lambda_bound, self.survey.rounds
        if self.power is not None:
            bound = min(bound, self.power.lambda_bound)
            rounds += self.power.rounds
        mixing = self.make_mixing(self.survey.num_agents, bound)
        mixing.continue_from(self.own, rounds)
        return mixing

    def reweighted(self, state: State) -> State:
        """Keep the own pulls; the survey asks for the weights."""
        return state | {"survey": self.survey.export_state()}

    def export_state(self) -> State:
        """Return the own pulls, and the state of every part that there is."""
        parts = {name: getattr(self, name) for name in PARTS}
        return super().export_state() | {
            name: None if part is None else part.export_state() for name, part in parts.items()
        }

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        restored = SelfEstimatingMachine(
            self.view, self.registers, self.make_mixing, heuristic=self.heuristic
        )
        restored._restore(state)
        for name in (*self.fields, *PARTS):
            setattr(self, name, getattr(restored, name))

    def _restore(self, state: State) -> None:
        parts: dict[str, Any] = {name: state.get(name) for name in PARTS}
        super().restore_state({name: state[name] for name in state if name not in PARTS})
        self.survey.restore_state(parts["survey"] or {})
        if parts["power"] is not None:
            self.power = self._iterate()
            self.power.restore_state(parts["power"])
        if parts["mixing"] is not None:
            if not self.estimator.done:
                raise InputError("state has values being mixed, but its estimates are not done")
            self.mixing = self._begin()
            self.mixing.restore_state(parts["mixing"])
