"""Sites that are not alike: agents whose arms have means of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.draws import normals, stream_key, words
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.forms import Form, formed, plain, read_form, shown
from coopbandits.problems.problem import Problem

SITES = 6
"""The stream of random words for differences between sites."""


@dataclass(frozen=True)
class Sites:
    """A spread of means over agents, or groups of agents with means each; see `sites`.

    `of` has one group per agent in turn, or pairs of an agent's name and its group.
    """

    spread: float = 0.0
    seed: int = 0
    groups: tuple[Form, ...] = ()
    names: tuple[str, ...] = ()
    of: tuple[Any, ...] = ()

    def blocks(
        self, base: Problem, agents: Sequence[Any]
    ) -> tuple[list[Problem], NDArray[np.int64]]:
        """Return a problem per group, and the group of every agent."""
        if not self.groups:
            return self._spread(base, len(agents)), np.arange(len(agents))
        group = self._group(agents)
        idle = np.flatnonzero(np.bincount(group, minlength=len(self.groups)) == 0)
        if idle.size:
            raise InputError(
                f"group {self.names[idle[0]]} has none of the {len(agents)} agents; put one into "
                "it, or leave it out"
            )
        return [formed(form, base, base) for form in self.groups], group

    def _spread(self, base: Problem, agents: int) -> list[Problem]:
        counters = np.arange(agents * base.levels.size, dtype=np.uint64)
        drawn = normals(words(stream_key(self.seed, SITES), counters))
        changes = self.spread * drawn.reshape(agents, *base.levels.shape)
        return [base.moved(change) for change in changes]

    def _group(self, agents: Sequence[Any]) -> NDArray[np.int64]:
        size = len(self.groups)
        if not self.of:
            return np.arange(len(agents)) % size
        if not self.names_agents:
            if len(self.of) != len(agents):
                raise InputError(
                    f"of has {len(self.of)} groups for {len(agents)} agents; give one per agent"
                )
            return np.array(self.of)
        named = named_agents(dict(self.of), agents)
        missing = [label for i, label in enumerate(agents) if i not in named]
        if missing:
            raise InputError(f"agent {missing[0]!r} is in no group; name its group in of")
        return np.array([named[i] for i in range(len(agents))])

    @property
    def names_agents(self) -> bool:
        """Whether `of` names agents."""
        return bool(self.of) and isinstance(self.of[0], tuple)

    @property
    def has_problems(self) -> bool:
        """Whether a group has a problem of its own."""
        return any(isinstance(form, Problem) for form in self.groups)

    def describe(self) -> dict[str, Any]:
        """Return all settings as plain data."""
        if not self.groups:
            return {"spread": self.spread, "seed": self.seed}
        names = {"names": list(self.names)} if self.names[0] != "0" else {}
        of = [list(each) if isinstance(each, tuple) else each for each in self.of]
        return {"groups": [*map(plain, self.groups)], **names, **({"of": of} if of else {})}

    def __repr__(self) -> str:
        if not self.groups:
            return f"spread {self.spread:g}, seed {self.seed}"
        return " and ".join(map(shown, self.groups[:4])) + (" …" if len(self.groups) > 4 else "")


def named_agents(given: Mapping[str, Any], agents: Sequence[Any]) -> dict[int, Any]:
    """Return what is said of agents by name, by number; names of strangers are refused."""
    numbers = {str(label): number for number, label in enumerate(agents)}
    for name in given:
        if name not in numbers:
            if len(numbers) > 20:
                raise InputError(f"there is no agent {name!r} among {len(numbers)}; check its name")
            raise unknown_name("agent", name, numbers)
    return {numbers[name]: value for name, value in given.items()}


def make_sites(base: Problem, settings: Mapping[str, Any]) -> Sites:
    """Return the sites that the settings of `sites` ask for."""
    spread, groups, of = settings["spread"], settings["groups"], settings["of"]
    if (spread is None) == (groups is None):
        what = "neither spread nor groups" if spread is None else "spread and groups"
        raise InputError(f"sites were given {what}; give one of them")
    if groups is None:
        if of is not None:
            raise InputError("of goes with groups; with a spread every agent is a site of its own")
        require_number("spread", spread, "a finite number, at least 0", -1e-300, float("inf"))
        require_count("seed", settings["seed"], least=0)
        base.moved(np.zeros(base.levels.shape))  # refuses problems that cannot be moved
        return Sites(float(spread), int(settings["seed"]))
    if not isinstance(groups, Mapping | Sequence) or isinstance(groups, str) or not groups:
        raise InputError(f"groups is {groups!r}; give a list with means or a problem per group")
    named = groups if isinstance(groups, Mapping) else dict(enumerate(groups))
    names = tuple(map(str, named))
    forms = tuple(read_form(f"group {name}", form, base) for name, form in named.items())
    return Sites(groups=forms, names=names, of=_read_of(of, names))


def _read_of(of: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    def group(name: Any) -> int:
        if str(name) not in names:
            raise unknown_name("group", str(name), names)
        return names.index(str(name))

    if of is None:
        return ()
    if isinstance(of, Mapping):
        return tuple(sorted((str(agent), group(name)) for agent, name in of.items()))
    if isinstance(of, str) or not isinstance(of, Sequence):
        raise InputError(f"of is {of!r}; give a list with a group per agent, or a dict by name")
    return tuple(group(name) for name in of)
