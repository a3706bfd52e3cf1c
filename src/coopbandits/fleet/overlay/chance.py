"""Choices by chance, made of random words that somebody else draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Random choices.

    Parameters
    ----------
    words : callable
        Returns 64 random bits.
    """

    def __init__(self, words: Callable[[], int]) -> None:
        self.words = words

    def below(self, limit: int) -> int:
        """Return a whole number from 0 up to, and without, a limit far below 2^64."""
        return self.words() * limit >> 64

    def choice(self, items: Sequence[T]) -> T:
        """Return one of some items."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], number: int) -> list[T]:
        """Return several of them in random order, at most all."""
        left = list(items)
        for at in range(min(number, len(left))):
            other = at + self.below(len(left) - at)
            left[at], left[other] = left[other], left[at]
        return left[:number]
