"""The field a second time: plain loops straight from the specification's section 5.

As in `naive.py` nothing of `coopbandits.core` is used; chance comes in as arguments. Tables are
indexed [agent][arm]. Every algorithm but the last lives on P(x + y): pull, add, then one mixing
step per round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.special import ndtri

from .naive import Row, Table, times_P

Choice = Callable[[int, int], Row]
"""(agent, t) to one number per arm, t the rounds completed."""


def largest(index: Row) -> int:
    m = max(index)
    return min(k for k in range(len(index)) if index[k] >= m - 1e-9 * max(1, abs(m)))


class Field:
    """What all have in common; rewards[agent][pull][arm], σ known."""

    def __init__(self, P: Table, K: int, sigma: float, rewards: Any) -> None:
        self.P, self.K, self.N, self.sigma, self.rewards = P, K, len(P), sigma, rewards

    def table(self, value: float) -> Table:
        return [[value] * self.K for _ in self.P]

    def mix(self, table: Table) -> None:
        for k in range(self.K):
            column = times_P(self.P, [row[k] for row in table])
            for i in range(self.N):
                table[i][k] = column[i]

    def pull(self, i: int, t: int, k: int) -> float:
        return float(self.rewards[i][t][k])


class NaiveCoop(Field):
    """coop-*: K initial rounds with mixing on, then an index on ŝ, n̂."""

    s: Table
    n: Table

    def play(self, T: int) -> list[list[int]]:
        self.s, self.n = self.table(0.0), self.table(0.0)
        arms = []
        for t in range(T):
            row = [
                t if t < self.K else largest([self.index(i, k, t) for k in range(self.K)])
                for i in range(self.N)
            ]
            for i, k in enumerate(row):
                self.s[i][k] += self.pull(i, t, k)
                self.n[i][k] += 1
            self.mix(self.s)
            self.mix(self.n)
            arms.append(row)
        return arms

    def index(self, i: int, k: int, t: int) -> float:
        raise NotImplementedError


class NaiveCoopUCB(NaiveCoop):
    gamma: float
    epsilon_c: Row | None = None  # None for f(t) = sqrt(ln t)

    def index(self, i: int, k: int, t: int) -> float:
        s, n = self.s[i][k], self.n[i][k]
        e = math.sqrt(math.log(t)) if self.epsilon_c is None else self.epsilon_c[i]
        root = 2 * self.gamma * (n + e) / (self.N * n) * math.log(t) / n
        return s / n + self.sigma * math.sqrt(root)


class NaiveCoopUCL(NaiveCoop):
    gamma: float
    prior: tuple[float, float] | None = None  # ν_0, σ_0

    def index(self, i: int, k: int, t: int) -> float:
        n = self.n[i][k]
        mean, variance = self.s[i][k] / n, self.sigma**2 / (self.N * n)
        if self.prior is not None:
            nu_0, sigma_0 = self.prior
            v = 1 / (1 / sigma_0**2 + 1 / variance)
            mean, variance = v * (nu_0 / sigma_0**2 + mean / variance), v
        quantile = max(0.0, -float(ndtri(t**-self.gamma)))  # of one half at least: K = 1, t = 1
        f = math.sqrt(math.log(t))
        return mean + math.sqrt(variance) * math.sqrt((n + f) / n) * quantile


class NaiveDecGaussian(Field):
    """Dec-TS and Dec-BayesUCB with precisions: the prior τ = 1, h = 0 is mixed with the rest."""

    z: Any = None  # standard normals [agent][pull][arm]; None for the quantile of level 1 − 1/(t+1)

    def play(self, T: int) -> list[list[int]]:
        tau, h = self.table(1.0), self.table(0.0)
        arms = []
        for t in range(T):
            row = []
            for i in range(self.N):
                # At t = 0 the level is 0 for every arm alike.
                quantile = 0.0 if t == 0 else -float(ndtri(1 / (t + 1)))
                row.append(
                    largest([
                        h[i][k] / tau[i][k]
                        + (quantile if self.z is None else self.z[i][t][k])
                        / math.sqrt(tau[i][k])
                        for k in range(self.K)
                    ])
                )  # fmt: skip
            for i, k in enumerate(row):
                tau[i][k] += self.N / self.sigma**2
                h[i][k] += self.N * self.pull(i, t, k) / self.sigma**2
            self.mix(tau)
            self.mix(h)
            arms.append(row)
        return arms


class NaiveDecBernoulli(Field):
    """Dec-TS with α and β, the prior Beta(1, 1) mixed with the rest."""

    draw: Callable[[int, int, Row, Row], Row]  # (agent, t, α, β) to one draw per arm

    def play(self, T: int) -> list[list[int]]:
        alpha, beta = self.table(1.0), self.table(1.0)
        arms = []
        for t in range(T):
            row = [largest(self.draw(i, t, alpha[i], beta[i])) for i in range(self.N)]
            for i, k in enumerate(row):
                u = self.pull(i, t, k)
                alpha[i][k] += self.N * u
                beta[i][k] += self.N * (1 - u)
            self.mix(alpha)
            self.mix(beta)
            arms.append(row)
        return arms


class NaiveFlooding(Field):
    """UCB-Network (one hop) and MP-UCB: in every round all that has come within reach, afresh."""

    hops: int
    B: float

    def play(self, T: int) -> list[list[int]]:
        d = self.distances()
        arms: list[list[int]] = []
        for t in range(T):
            row = []
            for i in range(self.N):
                s, n = [0.0] * self.K, [0] * self.K
                for j in range(self.N):
                    for r in range(t + 1 - max(1, d[i][j]) if d[i][j] <= self.hops else 0):
                        s[arms[r][j]] += self.pull(j, r, arms[r][j])
                        n[arms[r][j]] += 1
                row.append(largest(self.index(s, n, t)))
            arms.append(row)
        return arms

    def index(self, s: Row, n: list[int], t: int) -> Row:
        if 0 in n:
            return [float(m == 0) for m in n]
        log = math.log(max(2, t))
        return [s[k] / n[k] + math.sqrt(self.B * self.sigma**2 * log / n[k]) for k in range(self.K)]

    def distances(self) -> list[list[int]]:
        far = self.N
        d = [[0 if i == j else 1 if p else far for j, p in enumerate(row)]
             for i, row in enumerate(self.P)]  # fmt: skip
        for k in range(self.N):
            for i in range(self.N):
                for j in range(self.N):
                    d[i][j] = min(d[i][j], d[i][k] + d[k][j])
        return d
