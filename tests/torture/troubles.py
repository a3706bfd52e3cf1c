"""What each kind of trouble does to the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.torture.schedule import SECOND, Trouble

if TYPE_CHECKING:
    from tests.torture.actor import Actor
    from tests.torture.network import Link
    from tests.torture.stage import Stage

Strike = Callable[["Stage", "Actor", Trouble], None]

OPERATIONS = ("write", "sync", "rename", "sync_folder", "create", "remove", "sync", "sync")


def strike(stage: Stage, trouble: Trouble) -> None:
    """Let a trouble begin."""
    actor = stage.actors[trouble.agent % len(stage.actors)]
    stage.trace.note(stage.time, "trouble", sorted(KINDS).index(trouble.kind), actor.index)
    KINDS[trouble.kind](stage, actor, trouble)


def _kill(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.down_for = trouble.length
    stage.lives.die(actor, power=trouble.kind == "power")


def _kill_all(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    del actor
    power = stage.schedule.durability == "power" and trouble.word % 2 == 0
    for other in stage.actors:
        other.down_for = 1 + (trouble.word >> other.index) % trouble.length
        stage.lives.die(other, power=power)


def _kill_at_operation(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Let a process die between two calls, of what it does next or of its next start."""
    actor.down_for = trouble.length
    if trouble.word >> 32 & 1:
        stage.lives.die(actor, power=False)
    actor.files.kill_in = trouble.word % 16
    actor.files.kill_by_power = trouble.kind == "power-op"


def _one_link(stage: Stage, actor: Actor, trouble: Trouble) -> Link:
    found = list(stage.wiring.of(actor.index))
    if stage.schedule.auto:  # where any two could be linked, one that is
        found = [link for link in found if link.up] or found
    return found[trouble.word % len(found)]


def _cut(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Let nothing through, on one link or on all of an agent; both ends find out by silence."""
    one = _one_link(stage, actor, trouble)
    for link in stage.wiring.of(actor.index):
        if trouble.word % 2 or link is one:
            link.cut_until = stage.time + trouble.length
            for way in link.directions.values():
                way.held_until = link.cut_until


def _hush(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Let nothing through in one direction."""
    link = _one_link(stage, actor, trouble)
    ends = link.ends if trouble.word >> 32 & 1 else link.ends[::-1]
    link.directions[ends].held_until = stage.time + trouble.length


def _break(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    stage.wiring.close(_one_link(stage, actor, trouble), "it broke")


def _pause(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.awake_at = max(actor.awake_at, stage.time + trouble.length)


def _flip(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Damage a journal: flip a bit, or take one write out of its middle."""
    actor.down_for = trouble.length
    stage.lives.die(actor, power=False)
    if not actor.damaged:
        damage = actor.files.drop_write if trouble.word >> 62 == 0 else actor.files.flip
        actor.sound = actor.files.copy()
        actor.damaged = damage("journal", trouble.word)


def _full(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.files.room = trouble.word % 4000
    _heal_later(stage, actor, trouble)


def _fail(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    kind = OPERATIONS[trouble.word % len(OPERATIONS)]
    actor.files.failing[kind] = 1 + (trouble.word >> 8) % 3
    _heal_later(stage, actor, trouble)
    if trouble.word >> 33 & 1:  # then the next start shows what has become of the file
        stage.plan(trouble.length, _die_of_it, stage, actor, trouble)


def _die_of_it(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.down_for = SECOND
    power = stage.schedule.durability == "power" and trouble.word >> 34 & 1
    stage.lives.die(actor, power=bool(power))


def _slow(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.files.delay = (1 + trouble.word % 200) / 1000
    _heal_later(stage, actor, trouble)


def _heal_later(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    actor.broken_until = max(actor.broken_until, stage.time + trouble.length)
    stage.plan(trouble.length, actor.files.heal)


def _jump(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Set a clock by up to 40 s, forward or back; the next start begins with that time."""
    seconds = 1 + trouble.word % 40
    actor.clock.set_by += (-seconds if trouble.word >> 63 else seconds) * SECOND
    if trouble.word >> 62 & 1:
        _kill(stage, actor, trouble)


def _burst(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Choose many times at once, up to beyond the limit of open tickets.

    In one half of the bursts all rewards come within a second, so those of abandoned tickets come
    late; in the other half none come in time, and all tickets left expire together.
    """
    for at in range(20 + trouble.word % 60):
        in_time = 1 << 60 | (trouble.word + at * SECOND // 97) % SECOND << 10 | 1023
        stage.visits.choose(actor, in_time if trouble.word >> 63 else 0)


def _lose(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    # An agent without a journal is known by its clock, which must have gone on since its last start
    actor.down_for = 3 * SECOND + trouble.length
    stage.lives.die(actor, power=False)
    stage.lives.forget(actor)


def _rollback(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Put an older copy of a journal back, and some time later perhaps another one."""
    if not actor.copies or stage.healed:
        return
    actor.down_for = 3 * SECOND + trouble.length
    stage.lives.die(actor, power=False)
    files, account = actor.copies[trouble.word % len(actor.copies)]
    stage.checks.rolled_back(actor)
    actor.clock.is_right = True  # an older journal knows nothing of the starts since
    actor.files.put_back(files)
    actor.damaged = actor.uncertain = False
    actor.app.go_on(account.copy())
    if trouble.word >> 32 & 1:
        again = trouble._replace(word=trouble.word >> 33)
        stage.plan(actor.down_for + 3 * SECOND, _rollback, stage, actor, again)


def _rewire(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Add a neighbour, or take away one beside those of the ring; both ends start again."""
    size = len(stage.actors)
    other = stage.actors[(actor.index + 2 + trouble.word % (size - 3)) % size] if size > 3 else None
    if other is None or not stage.robust:
        return
    for one in (actor, other):
        one.down_for = trouble.length
        stage.lives.die(one, power=False)
    edge = min(actor.index, other.index), max(actor.index, other.index)
    if other.index in actor.neighbors:
        actor.neighbors.discard(other.index)
        other.neighbors.discard(actor.index)
    else:
        stage.wiring.lay(*edge)


def _liar(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    del actor
    if stage.liar is not None:
        stage.liar.come(trouble)


def _document(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Hand over a new document, and after a while perhaps another one to somebody else."""
    stage.operator.write(actor)
    if trouble.word & 1:
        other = stage.actors[(trouble.word >> 8) % len(stage.actors)]
        stage.plan(trouble.length, stage.operator.write, other)


def _drain(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Stop an agent in order: it says goodbye, and comes back later."""
    process = actor.process
    if process is not None:
        actor.down_for = trouble.length
        stage.lives.act(actor, process.shell.leave)
        stage.lives.later(actor, SECOND // 20, lambda: stage.lives.die(actor, power=False))


def _declare(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Add a bandit, and add an arm, remove or purge it, in an agent's file and while it runs."""
    file = actor.file
    if not file.extra and not trouble.word >> 4 & 3:
        file.purged = True
    file.side, file.extra = True, not file.extra and not file.purged
    if trouble.word & 3:  # otherwise with its next start
        stage.lives.redeclare(actor)
    if trouble.word >> 33 & 1:  # the next start shows whether that was kept
        stage.plan(trouble.length, _die_of_it, stage, actor, trouble)


def _migrate(stage: Stage, actor: Actor, trouble: Trouble) -> None:
    """Begin a new era on one agent, and later on others, while they run or with their next start.

    Some are killed soon after, and some skip an era.
    """
    stage.era += 1 + (trouble.word >> 40 & 1)
    _enter(stage, actor, trouble, stage.era)
    for other in stage.actors:
        word = trouble.word >> other.index
        if other is not actor and word & 3:
            stage.plan(word % trouble.length, _enter, stage, other, trouble, stage.era)


def _enter(stage: Stage, actor: Actor, trouble: Trouble, era: int) -> None:
    actor.file.era = max(actor.file.era, era)
    if (trouble.word >> actor.index) & 12:  # otherwise with its next start
        stage.lives.redeclare(actor)
    if trouble.word >> 33 & 1:
        stage.plan(trouble.length % (SECOND // 2), _die_of_it, stage, actor, trouble)


KINDS: dict[str, Strike] = {
    "kill": _kill,
    "power": _kill,
    "kill-op": _kill_at_operation,
    "power-op": _kill_at_operation,
    "kill-all": _kill_all,
    "cut": _cut,
    "hush": _hush,
    "break": _break,
    "pause": _pause,
    "flip": _flip,
    "full": _full,
    "fail": _fail,
    "slow": _slow,
    "jump": _jump,
    "burst": _burst,
    "document": _document,
    "drain": _drain,
    "lose": _lose,
    "rollback": _rollback,
    "rewire": _rewire,
    "liar": _liar,
    "declare": _declare,
    "migrate": _migrate,
}
