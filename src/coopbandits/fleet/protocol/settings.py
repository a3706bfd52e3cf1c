"""The settings of one node."""

from __future__ import annotations

from dataclasses import dataclass

from coopbandits.core.aggregate import Claims
from coopbandits.fleet.document.keeper import Keeper
from coopbandits.fleet.identity.notary import Signing
from coopbandits.fleet.identity.revoked import Revoked

BANDIT = 0
"""The number of the one bandit that a cluster without sections [bandits.NAME] has."""


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
    robust : bool
        Whether rounds end by the clock, or wait for all neighbours.
    claims : Claims
        What neighbours' claims are checked against.
    signing : Signing
        Who signs entries.
    revoked : Revoked
        Who is no longer believed.
    keeper : Keeper
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
    robust: bool
    claims: Claims
    signing: Signing
    revoked: Revoked
    keeper: Keeper
