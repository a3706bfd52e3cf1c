"""Deliberate bugs: each breaks a promise of the fleet, and torture has to notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A bug: in which file which text becomes which, with which policies it shows, and whether it
    takes two bandits, or policies that change."""

    name: str
    file: str
    text: str
    replacement: str
    policies: tuple[str, ...]
    bandits: bool = False
    eras: bool = False


ROBUST = ("tree-ts", "flood-ts")

MUTANTS = (
    Mutant(
        "no write-ahead",
        "fleet/storage/replica.py",
        "        self.journal.append(event, self.number)\n        self._apply(event)",
        "        self.journal.hold(event, self.number)\n        self._apply(event)",
        ROBUST,
    ),
    Mutant(
        "a duplicate reward is counted",
        "fleet/storage/tickets.py",
        "arm, context = self.close(number)",
        "arm, context = self.open[number].arm, b''",
        ROBUST,
    ),
    Mutant(
        "damaged files are cut",
        "fleet/storage/records.py",
        "if marked else damage.torn):\n",
        "if marked else True):\n",
        ROBUST,
    ),
    Mutant(
        "damaged files of durability power are cut",
        "fleet/storage/records.py",
        "if not (_lost_power(data, whole[0], at, sequence) if",
        "if not (True if",
        ROBUST,
    ),
    Mutant(
        "ticket numbers repeat after a rollback",
        "fleet/storage/replica.py",
        "        self.tickets.begin(nonce)\n",
        "",
        ROBUST,
    ),
    Mutant(
        "an older message replaces a newer one",
        "fleet/protocol/gossip.py",
        "        if frame.stamp.round <= peer.heard_round:\n",
        "        if False:\n",
        ROBUST,
    ),
    Mutant(
        "rewards after speaking go into the same round",
        "fleet/storage/replica.py",
        "        if self.spoken:\n            self._spoken_state = ",
        "        if False:\n            self._spoken_state = ",
        ("dec-ts", "dducb"),
    ),
    Mutant(
        "messages of the last rounds are not kept",
        "fleet/storage/replica.py",
        "        self.sent.pop(self.rounds + 1 - KEPT_ROUNDS, None)",
        "        self.sent.pop(self.rounds, None)",
        ("dec-ts", "dducb"),
    ),
    Mutant(
        "expired tickets are still counted",
        "fleet/storage/replica.py",
        "        if due:\n",
        "        if False:\n",
        ROBUST,
    ),
    Mutant(
        "a batch is not synced",
        "fleet/storage/journal.py",
        "        if self._marked:\n            self.disk.sync()\n",
        "",
        ROBUST,
    ),
    Mutant(
        "a new journal is not synced before it is renamed",
        "fleet/storage/disk.py",
        "            self._write(file, data)\n            self.files.sync(file)\n",
        "            self._write(file, data)\n",
        ROBUST,
    ),
    Mutant(
        "events that came while a new journal was written are not in it",
        "fleet/storage/journal.py",
        "        self.disk.switch(bytes(rewrite.tail))",
        '        self.disk.switch(b"")',
        ROBUST,
    ),
    Mutant(
        "events that gathered are written again after the snapshot that holds them",
        "fleet/storage/journal.py",
        "        gathered, self._gathered = self._gathered, []",
        "        gathered = self._gathered",
        ROBUST,
    ),
    Mutant(
        "a failed sync is ignored",
        "fleet/storage/disk.py",
        "                self.files.sync(self._file)\n            except OSError as error:\n"
        "                raise DoubtError(self._unwritable(error)) from error\n",
        "                self.files.sync(self._file)\n            except OSError:\n"
        "                pass\n",
        ROBUST,
    ),
    Mutant(
        "neighbours are told before it is on disk",
        "fleet/process/shell.py",
        "        while self._unsent and self._unsent[0][0] <= self.journal.stored:",
        "        while self._unsent:",
        ("flood-ts", "dec-ts"),
    ),
    Mutant(
        "applications are told before it is on disk",
        "fleet/process/shell.py",
        "        if self.is_stored:\n            then(None)",
        "        if True:\n            then(None)",
        ROBUST,
    ),
    Mutant(
        "claims are not checked",
        "fleet/protocol/gossip.py",
        "            self.replica.agent.check_claims(values, self.claims, now)\n",
        "            pass\n",
        ROBUST,
    ),
    Mutant(
        "acknowledgements belong to no memory",
        "fleet/protocol/entries.py",
        "        if not changed and number >= arrived:\n",
        "        if True:\n",
        ("flood-ts",),
    ),
    Mutant(
        "an older entry replaces a newer one",
        "core/aggregate/entries.py",
        "np.lexsort((versions, numbers))",
        "np.lexsort((-versions, numbers))",
        ("flood-ts",),
    ),
    Mutant(
        "each number of an author may have as many pulls as one agent",
        "core/aggregate/claims.py",
        "grown = self._totals.get(author, 0.0) + total - (known or 0.0)\n",
        "grown = total\n",
        ("flood-ts",),
    ),
    Mutant(
        "signatures are not checked",
        "fleet/protocol/entries.py",
        "        if holder is None:\n            raise ForgedError",
        "        return True\n        if holder:\n            raise ForgedError",
        ("flood-ts",),
    ),
    Mutant(
        "a revoked agent is not forgotten",
        "fleet/process/shell.py",
        "        if self.revoked.refresh():\n",
        "        if False:\n",
        ("flood-ts",),
    ),
    Mutant(
        "entries of a revoked agent stay in the totals",
        "fleet/protocol/entries.py",
        "            if number != machine.number and author_of(number) in authors:\n",
        "            if False:\n",
        ("flood-ts",),
    ),
    Mutant(
        "neighbours may still tell of a revoked agent",
        "fleet/protocol/entries.py",
        "enumerate(told if self.revoked else ())",
        "enumerate(())",
        ("flood-ts",),
    ),
    Mutant(
        "agents are counted by their numbers",
        "core/aggregate/flooded_totals.py",
        "s.me.num_agents += 0 if is_known else 1",
        "s.me.num_agents += 1",
        ("flood-ts",),
    ),
    Mutant(
        "an author may have any numbers",
        "fleet/protocol/entries.py",
        "if number not in self.known and len(self._numbers.get(author, ())) >= MAX_NUMBERS:\n",
        "if False:\n",
        ("flood-ts",),
    ),
    Mutant(
        "records may be missing",
        "fleet/storage/records.py",
        "    if before is not None and sequence != before + 1:\n",
        "    if False:\n",
        ROBUST,
    ),
    Mutant(
        "a clock that is set back keeps tickets open",
        "fleet/storage/replica.py",
        "        self.tickets.cap_lifetimes(now)\n",
        "",
        ROBUST,
    ),
    Mutant(
        "a new snapshot forgets the document",
        "fleet/storage/journal.py",
        "        if self.adopted is not None:\n            bodies",
        "        if False:\n            bodies",
        ROBUST,
    ),
    Mutant(
        "a document takes effect without being stored",
        "fleet/document/store.py",
        "        self.journal.adopt(Adopted(msgspec.msgpack.encode(stored)))\n",
        "",
        ROBUST,
    ),
    Mutant(
        "tickets of a bandit that came late are forgotten",
        "fleet/storage/replica.py",
        "        if declared.nonce:\n",
        "        if False:\n",
        ROBUST,
        bandits=True,
    ),
    Mutant(
        "a new era forgets what was pulled in the one before",
        "fleet/storage/eras.py",
        "        flood.carry(live.totals, live.pulls, live.clock)\n",
        "        flood.carry(0.0 * live.totals, 0.0, live.clock)\n",
        ("ledger-ts", "tree-ts"),
        eras=True,
    ),
    Mutant(
        "a new era is entered without being stored",
        "fleet/storage/replica.py",
        "                if is_news:\n                    self.journal",
        "                if False:\n                    self.journal",
        ("flood-ts", "ledger-ts"),
        eras=True,
    ),
    Mutant(
        "an agent that starts forgets the base",
        "fleet/storage/replica.py",
        '            holder.restore_state(base["agent"])\n',
        "",
        ("flood-ts", "ledger-ts"),
        eras=True,
    ),
)
