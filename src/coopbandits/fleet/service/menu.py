"""Which arms of a bandit may be chosen: declared, not frozen, pinned, and with a minimum share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coopbandits.core.draws import uniform_of
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config.bandits import BanditConfig


class Menu:
    """The arms of one bandit as they are declared now.

    Parameters
    ----------
    bandit : BanditConfig
        The bandit.
    known : sequence of int
        The ids of all arms that its agent has, in the order of the agent's arms.

    Attributes
    ----------
    names : tuple of str
        The declared arms.
    places : list of int
        Where each of them is among the agent's.
    open : list of int or None
        Places of those that may be chosen; None for all, where no others can come.
    """

    def __init__(self, bandit: BanditConfig, known: Sequence[int]) -> None:
        self.bandit, self.names = bandit, tuple(arm.name for arm in bandit.arms)
        at = {arm: place for place, arm in enumerate(known)}
        self.places = [at[arm.number] for arm in bandit.arms]
        self._places = dict(zip(self.names, self.places, strict=True))
        self._frozen = {arm.name for arm in bandit.arms if arm.frozen}
        shares = ((self._places[arm.name], arm.minimum_share) for arm in bandit.arms)
        self._shares = [(place, share) for place, share in shares if share]
        open_ = [place for name, place in self._places.items() if self._is_open(name)]
        # Where arms may be added, neighbours may make the agent know more than are declared.
        are_all = len(open_) == len(known) and not bandit.can_widen
        self.open = None if are_all else open_

    def _is_open(self, name: str) -> bool:
        pinned = self.bandit.pinned
        return name == pinned if pinned is not None else name not in self._frozen

    def allowed(self, asked: Sequence[str] | None, words: Callable[[], int]) -> list[int] | None:
        """Return the places to choose from; None for all.

        One alone where chance gives it what it must have at least.
        """
        if not self.names:
            raise InputError(
                f"bandit {self.bandit.name} is retired: it takes rewards of open tickets, and "
                "chooses no more"
            )
        places = self.open if asked is None else self._asked(asked)
        if not self._shares:
            return places
        left = uniform_of(words())
        for place, share in self._shares:
            if places is None or place in places:
                left -= share
                if left < 0.0:
                    return [place]
        return places

    def _asked(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in self._places:
                raise unknown_name("arm", name, self.names)
        if self.open is None:
            return [self._places[name] for name in names]
        found = [self._places[name] for name in names if self._is_open(name)]
        if not found:
            raise InputError(
                f"none of the arms {', '.join(names)} may be chosen now: others are pinned, or "
                "they are frozen; allow another one"
            )
        return found
