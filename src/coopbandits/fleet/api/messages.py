"""What travels over HTTP: the bodies of requests and answers, from which the schemas are made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Ticket = Annotated[
    str, Meta(description="Stands for one choice.", examples=["0b7c5f3a90c2e845-17"])
]
Arm = Annotated[str, Meta(description="The name of an option.")]
Reward = Annotated[float, Meta(description="What the option brought.", examples=[1.0])]


class ChooseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which options may be used; without it, or with null, all."""

    allowed: Annotated[list[Arm], Meta(min_length=1)] | None = None


class ChoiceAnswer(msgspec.Struct):
    """An option to use now, and the ticket with which its reward is handed in."""

    ticket: Ticket
    arm: Arm


class ObserveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The reward of a choice."""

    ticket: Ticket
    reward: Reward


class ReceiptAnswer(msgspec.Struct):
    """What became of a reward; a duplicate had been handed in before and changed nothing."""

    ticket: Ticket
    arm: Arm
    reward: Reward
    duplicate: bool


class ArmAnswer(msgspec.Struct):
    """What the agent knows of one option.

    `mean`, `pulls` and `confidence` are of the whole network as this agent sees it; `own_pulls`,
    `own_reward` (a sum) and `open` are of its own application.
    """

    arm: Arm
    mean: float | None
    pulls: float
    confidence: tuple[float, float] | None
    own_pulls: int
    own_reward: float
    open: int


class ArmsAnswer(msgspec.Struct):
    """What the agent knows of every option."""

    arms: list[ArmAnswer]


class ReadyAnswer(msgspec.Struct):
    """The agent can serve."""

    ready: bool


class AliveAnswer(msgspec.Struct):
    """The process is alive."""

    alive: bool


class ErrorAnswer(msgspec.Struct):
    """What was wrong and what to do, in one sentence; nothing was changed."""

    error: str
