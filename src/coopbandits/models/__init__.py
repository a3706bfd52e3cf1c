"""Other models of the literature: each with a small driver of its own.

What is here differs from the rest of the package in what an agent is, sees or may do, so it shares
neither agents nor engines with it: players that collide (`collisions`), a best arm to be found with
few exchanges (`best_arm`), rounds spent on pulling or on telling (`broadcast`), and one agent that
sees rewards (`observer`). All rewards are 0 or 1. Drivers are plain loops, meant to be read;
`catalogue` has them by name, for the command line.
"""

from coopbandits.models.best_arm import BestArm, many_exchanges, one_exchange
from coopbandits.models.broadcast import pull_or_tell
from coopbandits.models.collisions import Collisions, collision_bound, play_collisions
from coopbandits.models.observer import one_observer
from coopbandits.models.outcome import Outcome
from coopbandits.models.players import TDFS, MCTopM, RhoRand

__all__ = [
    "TDFS",
    "BestArm",
    "Collisions",
    "MCTopM",
    "Outcome",
    "RhoRand",
    "collision_bound",
    "many_exchanges",
    "one_exchange",
    "one_observer",
    "play_collisions",
    "pull_or_tell",
]
