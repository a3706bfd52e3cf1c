"""DDUCB a second time: plain loops straight from the pseudocode, in the paper's letters.

Slow and obvious on purpose. Nothing of `coopbandits.core` is used, so that agreement means
something. Lists are indexed [agent][arm]; a pair such as (α, a) is two such lists.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Row = list[float]
Table = list[Row]


class NaiveRun(NamedTuple):
    """Arms per round; s per round just before choosing; α, a at every stage boundary."""

    arms: list[list[int]]
    s: list[list[float]]
    boundaries: list[tuple[int, Table, Table]]


class Setup(NamedTuple):
    """The algorithm's constants, written as in the specification."""

    P: Table
    K: int
    T: int
    lam: float
    sigma: float = 1.0
    eta: float = 2.0
    epsilon: float = 1 / 22
    bonus_factor: float = 2.0
    accelerated: bool = True
    own_pulls: bool = True
    neighbor_pulls: bool = False
    remix: bool = False
    L: int | None = None
    mixing_rounds: int | None = None
    N_bounds: tuple[int, int] | None = None


def stage(x: Setup) -> tuple[int, int]:
    """C and E."""
    N_hi = x.N_bounds[1] if x.N_bounds else len(x.P)
    if x.mixing_rounds is not None:
        C = x.mixing_rounds
    elif x.lam < 1e-9:
        C = 1
    elif x.accelerated:
        C = max(1, math.ceil(math.log(2 * N_hi / x.epsilon) / math.sqrt(2 * math.log(1 / x.lam))))
    else:
        C = max(1, math.ceil(math.log(N_hi / x.epsilon) / math.log(1 / x.lam)))
    return C, C if x.L is None else max(C, math.ceil(2 * x.K * C / x.L))


def times_P(P: Table, y: Row) -> Row:
    """P y for one coordinate: y holds one number per agent."""
    result = []
    for i in range(len(P)):
        total = P[i][i] * y[i]
        for j in range(len(P)):
            if j != i:
                total += P[i][j] * y[j]
        result.append(total)
    return result


class Mixing:
    """One coordinate of (β, b) of all agents, with its own step number r."""

    def __init__(self, y: Row, lam: float) -> None:
        self.y, self.lam, self.r, self.rho = y, lam, 0, 0.0
        self.y_before: Row = []

    def step(self, P: Table) -> None:
        Py = times_P(P, self.y)
        if self.r == 0 or self.lam < 1e-9:
            y_next, rho_next = Py, self.lam
        else:
            rho_next = 1 / (2 / self.lam - self.rho)
            y_next = [
                rho_next * (2 / self.lam * Py[i] - self.rho * self.y_before[i])
                for i in range(len(P))
            ]
        self.y_before, self.y, self.rho, self.r = self.y, y_next, rho_next, self.r + 1


def argmax(alpha: Row, a: Row, s: float, N_lo: float, B: float, sigma: float) -> int:
    index = []
    for k in range(len(a)):
        if a[k] <= 1e-12:
            index.append(math.inf)
        else:
            index.append(alpha[k] / a[k] + math.sqrt(B * sigma**2 * math.log(s) / (N_lo * a[k])))
    m = max(index)
    if m == math.inf:
        return index.index(m)
    return min(k for k in range(len(a)) if index[k] >= m - 1e-9 * max(1, abs(m)))


class NaiveDDUCB:
    """All agents at once; rewards[agent][pull][arm]."""

    def __init__(self, setup: Setup, rewards: Any) -> None:
        self.x, self.rewards, self.run = setup, rewards, NaiveRun([], [], [])
        self.agents, self.K = range(len(setup.P)), setup.K
        self.N_lo, self.N_hi = setup.N_bounds or (len(setup.P), len(setup.P))
        self.B = setup.bonus_factor * setup.eta
        self.C, self.E = stage(setup)
        self.t = 0

    def play(self) -> NaiveRun:
        zeta = self.initial_rounds()
        K, N_hi, agents = self.K, self.N_hi, self.agents
        self.s = [float(K)] * len(agents)
        self.alpha = [[u / N_hi for u in zeta[i]] for i in agents]
        self.a = [[1 / N_hi] * K for _ in agents]
        self.beta, self.b = zeta, [[1.0] * K for _ in agents]
        self.delta, self.d = self.zeros(), self.zeros()
        while self.t < self.x.T:
            self.one_stage()
        return self.run

    def zeros(self) -> Table:
        return [[0.0] * self.K for _ in self.agents]

    def initial_rounds(self) -> Table:
        zeta = self.zeros()
        for k in range(min(self.K, self.x.T)):
            for i in self.agents:
                zeta[i][k] = float(self.rewards[i][self.t][k])
            self.run.arms.append([k for _ in self.agents])
            self.run.s.append([math.nan for _ in self.agents])
            self.t += 1
        return zeta

    def best(self, sums: Table, counts: Table) -> list[int]:
        return [
            argmax(sums[i], counts[i], self.s[i], self.N_lo, self.B, self.x.sigma)
            for i in self.agents
        ]

    def one_stage(self) -> None:
        x, K, agents = self.x, self.K, self.agents
        first_stage = not self.run.boundaries
        lam = x.lam if x.accelerated else 0.0
        mixing = [Mixing([row[k] for row in self.beta], lam) for k in range(K)]
        mixing += [Mixing([row[k] for row in self.b], lam) for k in range(K)]
        gamma, c = self.zeros(), self.zeros()
        k_star = self.best(self.alpha, self.a)
        for r in range(self.E):
            if x.own_pulls:
                k_star = self.best(self.alpha, self.a)
            elif x.remix and not first_stage:
                k_star = self.best(self.delta, self.d)
            self.run.arms.append(k_star)
            self.run.s.append(list(self.s))
            u = [float(self.rewards[i][self.t][k_star[i]]) for i in agents]
            for i in agents:
                gamma[i][k_star[i]] += u[i]
                c[i][k_star[i]] += 1
            self.mix(mixing, r)
            self.t += 1
            self.hear(k_star, u)
            if self.t == x.T:
                return
        self.s = [float((self.t - self.E) * self.N_hi) for _ in agents]
        for i in agents:
            for k in range(K):
                self.delta[i][k] += mixing[k].y[i]
                self.d[i][k] += mixing[K + k].y[i]
        self.alpha = [list(row) for row in self.delta]
        self.a = [list(row) for row in self.d]
        self.beta, self.b = gamma, c
        self.run.boundaries.append(
            (self.t, [list(row) for row in self.alpha], [list(row) for row in self.a])
        )

    def mix(self, mixing: list[Mixing], r: int) -> None:
        K = self.K
        L = 2 * K if self.x.L is None else min(self.x.L, 2 * K)
        for coordinate in range(r * L, r * L + L):
            if mixing[coordinate % (2 * K)].r < self.C:
                mixing[coordinate % (2 * K)].step(self.x.P)
        if self.x.remix:
            for table in (self.delta, self.d):
                for k in range(K):
                    column = times_P(self.x.P, [row[k] for row in table])
                    for i in self.agents:
                        table[i][k] = column[i]

    def hear(self, k_star: list[int], u: Row) -> None:
        for i in self.agents:
            heard = [i] if self.x.own_pulls else []
            if self.x.neighbor_pulls:
                heard += [j for j in self.agents if j != i and self.x.P[i][j] != 0]
            for j in heard:
                self.alpha[i][k_star[j]] += u[j] / self.N_hi
                self.a[i][k_star[j]] += 1 / self.N_hi
                self.s[i] += 1
