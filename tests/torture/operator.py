"""An operator that changes the fleet by documents while everything goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.document.content import read_document
from coopbandits.fleet.document.seal import Signed, make_head, sign
from coopbandits.fleet.identity.operators import public_bytes
from coopbandits.fleet.storage.disk import DiskError
from tests.torture.application import ViolationError

if TYPE_CHECKING:
    from tests.torture.actor import Actor
    from tests.torture.stage import Stage

KEY = Ed25519PrivateKey.from_private_bytes(b"torture" + bytes(25))
DOCUMENTS = DocumentConfig((public_bytes(KEY),))
"""Whom all agents believe."""


def make_document(cluster: str, version: int) -> Signed:
    """Return a document that differs from all others in its pace and in whom it revokes."""
    tables = {
        "cluster": {"name": cluster, "version": version, "revoked": [f"n{1000 + version}"]},
        "settings": {"rounds_per_second": 18.0 + version % 5},
    }
    document = read_document(write_config(tables).encode())
    head = make_head(cluster, version, document.content, ())
    return Signed(sign(head, [KEY]), document.content)


class Operator:
    """Hands over one document after the other, and remembers what each of them says."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.latest = stage, 0
        self.signed: dict[int, Signed] = {}
        self.digests: dict[int, bytes] = {0: b""}

    def write(self, actor: Actor) -> None:
        """Hand an agent a document with the next version."""
        self.latest += 1
        made = self.signed[self.latest] = make_document(self.stage.bandit.cluster.name, self.latest)
        self.digests[self.latest] = made.seal.open().digest
        self.hand_over(actor)

    def hand_over(self, actor: Actor) -> None:
        """Hand an agent the latest document, if it runs and there is one."""
        if actor.process is not None and self.latest:
            self.stage.lives.act(actor, self._adopt, actor, self.latest)

    def _adopt(self, actor: Actor, version: int) -> None:
        process, life = actor.process, actor.life
        assert process is not None
        try:
            process.node.adopt(self.signed[version], process.clock())
        except DiskError:
            return
        except InputError as error:
            raise ViolationError(f"{actor.name} refuses a document: {error}") from error

        def told(stored: bool) -> None:
            if stored and actor.life == life:
                actor.document = max(actor.document, version)

        process.answer(told)

    def check(self, actor: Actor) -> None:
        """Look at the document of an agent: one that was handed over, and none that was lost."""
        process = actor.process
        assert process is not None
        documents = process.node.settings.documents
        if documents.version < actor.document:
            raise ViolationError(
                f"{actor.name} has document {documents.version}, and acknowledged {actor.document}"
            )
        if documents.digest != self.digests[documents.version]:
            raise ViolationError(f"{actor.name} has another document {documents.version}")
        if documents.alarm:
            raise ViolationError(f"{actor.name} raises an alarm: {documents.alarm}")

    def unwell(self) -> str:
        """Return who has not got the latest document; empty if everybody has."""
        for actor in self.stage.actors:
            process = actor.process
            if process is not None and process.node.settings.documents.version != self.latest:
                return f"{actor.name} has not got document {self.latest}"
        return ""
