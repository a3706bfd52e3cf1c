"""The settings of one node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coopbandits.fleet.document.store import DocumentStore


@dataclass(frozen=True)
class NodeSettings:
    """The settings of one node.

    Attributes
    ----------
    node, cluster, configuration, epoch : str, str, str and int
        Its id, and what all nodes must agree on.
    incarnation : int
        Which start of the process this is; larger than all earlier ones.
    neighbors : dict of str to int
        Numbers of the neighbours, by id.
    period : float
        Seconds between two rounds.
    silence : float
        Seconds without a frame after which a link is dropped.
    max_message_bytes : int
        The longest message accepted.
    signing_interval : float
        Seconds between two signatures, at least.
    number_of : callable
        Returns the number of an agent by its name.
    documents : DocumentStore
        Has the cluster's document.
    """

    node: str
    cluster: str
    configuration: str
    epoch: int
    incarnation: int
    neighbors: dict[str, int]
    period: float
    silence: float
    max_message_bytes: int
    signing_interval: float
    number_of: Callable[[str], int]
    documents: DocumentStore
