"""Processes: how they start, what they do by themselves, and how they die."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import BanditConfig, NodeConfig
from tests.torture.actor import Actor
from tests.torture.application import (
    LIFETIME,
    LIMITS,
    Account,
    ViolationError,
)
from tests.torture.elsewhere import STICKY_SECONDS
from tests.torture.files import Killed
from tests.torture.open_wiring import DEGREE, SEEDS
from tests.torture.operator import DOCUMENTS
from tests.torture.process import Process, name
from tests.torture.schedule import MAIN, SECOND

if TYPE_CHECKING:
    from tests.torture.stage import Stage

SILENCE = 2.0
NOWHERE = Address("127.0.0.1", 1)


class Lives:
    """The processes on a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    # What a process does

    def act(self, actor: Actor, call: Callable[..., Any], *args: Any) -> Any:
        """Let a process do something; it may die over it. What follows from it is done, too."""
        try:
            result = call(*args)
        except Killed as death:
            self.die(actor, power=death.power)
            return None
        except (ViolationError, InputError):
            raise
        except Exception as error:
            raise ViolationError(
                f"{actor.name}: {type(error).__name__} escaped: {error}"
            ) from error
        if actor.files.cost:
            actor.awake_at = max(actor.awake_at, self.stage.time + int(actor.files.cost * SECOND))
            actor.files.cost = 0.0
        if self.stage.wiring.broken:
            self.stage.wiring.close_broken()
        if actor.process is not None:
            self._arm(actor)
            self.stage.checks.after(actor)
        return result

    def later(self, actor: Actor, delay: int, call: Callable[[], None]) -> None:
        """Let a process do something later, if it lives then."""
        self.stage.plan(delay, self._if_alive, actor, actor.life, call)

    def _if_alive(self, actor: Actor, life: int, call: Callable[[], None]) -> None:
        if actor.process is None or actor.life != life:
            return
        late = actor.awake_at - self.stage.time
        if late > 0:
            self.stage.plan(late, self._if_alive, actor, life, call)
            return
        self.act(actor, call)

    def _arm(self, actor: Actor) -> None:
        assert actor.process is not None
        due, now = actor.process.node.next_tick, self.stage.time
        if due == actor.due or due == math.inf:
            return
        actor.due = due
        at = now if due == -math.inf else max(now, actor.clock.when(due))
        if actor.armed <= now or at < actor.armed:
            at += at == now
            actor.armed = at
            self.stage.plan(at - now, self._tick, actor, actor.life, at)

    def _tick(self, actor: Actor, life: int, armed: int) -> None:
        if actor.process is None or actor.life != life or actor.armed != armed:
            return
        actor.due = math.nan
        late = actor.awake_at - self.stage.time
        if late > 0:
            actor.armed, actor.due = actor.awake_at, actor.process.node.next_tick
            self.stage.plan(late, self._tick, actor, life, actor.armed)
            return
        self.stage.trace.note(self.stage.time, "tick", actor.index, actor.process.replica.rounds)
        self.act(actor, actor.process.shell.tick)

    def _beat(self, actor: Actor) -> None:
        process = actor.process
        assert process is not None
        process.beat()
        if not process.node.trouble:
            actor.beaten = process.clock()
        self.later(actor, SECOND, lambda: self._beat(actor))
        self.stage.checks.beat(actor)

    def _watch(self, actor: Actor) -> None:
        assert actor.process is not None
        actor.process.watch()
        self.later(actor, SECOND // 2, lambda: self._watch(actor))

    # Starts

    def start(self, actor: Actor) -> None:
        """Start a process, unless one runs; a journal that was damaged may be refused."""
        if actor.process is not None:
            return
        found = actor.files.copy()
        try:
            process = Process(self._config(actor), actor.files, actor.clock, actor.words)
        except Killed as death:
            self._clear(actor, power=death.power)
            self.stage.plan(actor.down_for, self.start, actor)
        except InputError as error:
            self._refused(actor, found, error)
        except OSError as error:
            if "read" not in actor.files.failing:
                raise ViolationError(f"{actor.name} does not start: {error}") from error
            self.stage.plan(SECOND, self.start, actor)
        else:
            self._started(actor, process)

    def _config(self, actor: Actor) -> NodeConfig:
        schedule = self.stage.schedule
        return NodeConfig(
            self.stage.bandit.cluster,
            actor.name,
            Path("/virtual"),
            {name(j): NOWHERE for j in sorted(actor.neighbors)},
            durability=schedule.durability,
            ticket_lifetime=LIFETIME,
            max_open_tickets=LIMITS[actor.life % len(LIMITS)],
            silence=SILENCE,
            document=DOCUMENTS,
            bandits=self._declared(actor),
            auto=schedule.auto,
            degree=DEGREE,
            seeds=SEEDS if schedule.auto else (),
        )

    def redeclare(self, actor: Actor) -> None:
        """Let a process that runs go by what its file says now."""
        if actor.process is not None:
            self.act(actor, actor.process.take, self._declared(actor))

    def _declared(self, actor: Actor) -> dict[str, BanditConfig]:
        main = self.stage.setting.bandit_in(actor.file.era)
        if self.stage.schedule.forward:
            main = replace(main, sticky_seconds=STICKY_SECONDS)
        return actor.file.bandits(main) if self.stage.schedule.bandits else {MAIN: main}

    def _started(self, actor: Actor, process: Process) -> None:
        stage = self.stage
        actor.process, actor.armed, actor.due, actor.beaten = process, math.inf, math.nan, -math.inf
        process.connect(
            stage.wiring.wire(actor.index),
            lambda delay, call: self.later(actor, delay, call),
            lambda: actor.revoked,
        )
        stage.trace.note(stage.time, "start", actor.index, process.replica.rounds)
        stage.checks.started(actor)
        actor.damaged = actor.clock.is_right = False
        self.later(actor, 0, lambda: None)  # arms its timer
        self.later(actor, SECOND, lambda: self._beat(actor))
        self.later(actor, SECOND // 2, lambda: self._watch(actor))
        stage.wiring.dial_all(actor)

    def _refused(self, actor: Actor, found: dict[str, bytes], error: InputError) -> None:
        """Let the operator put back what was there before the damage."""
        if actor.files.copy() != found:
            raise ViolationError(f"{actor.name} has changed a journal that it refused: {error}")
        if not actor.damaged:
            raise ViolationError(f"{actor.name} refuses a journal that nobody damaged: {error}")
        self.stage.trace.note(self.stage.time, "refused", actor.index)
        if actor.sound:
            actor.files.put_back(actor.sound)
            actor.damaged = False
        else:
            self.forget(actor)
        self.stage.plan(SECOND, self.start, actor)

    # Ends

    def forget(self, actor: Actor) -> None:
        """Lose a journal; the agent that begins anew is another one to all others."""
        actor.clock.is_right = True  # nothing else tells this start from those before
        actor.files.put_back({})
        self.stage.checks.lost(actor)
        actor.damaged = actor.uncertain = False
        actor.app.account = Account()

    def die(self, actor: Actor, *, power: bool) -> None:
        """End a process, and begin it again later."""
        if actor.process is None:
            return
        self.stage.trace.note(self.stage.time, "dies", actor.index, int(power))
        if actor.process.journal.read_only:
            actor.clock.is_right = True  # nothing else tells of a start that could write nothing
        self._clear(actor, power=power)
        self.stage.wiring.close_all(actor)
        self.stage.plan(actor.down_for, self.start, actor)

    def _clear(self, actor: Actor, *, power: bool) -> None:
        actor.process = None
        actor.life += 1
        actor.awake_at = self.stage.time
        if not power:
            actor.files.process_died()
            return
        actor.files.power_failed()
        if self.stage.schedule.durability == "process":  # promises nothing for what was not synced
            actor.uncertain, actor.damaged, actor.sound = True, True, {}
