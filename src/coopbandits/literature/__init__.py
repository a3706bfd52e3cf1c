"""Models of the literature, one file per paper.

Each file opens with the paper's model, algorithm and guarantee, and with how it differs from the
paper. Where the text was not available to us, it says *reconstruction*: only the claims of the
abstract are the authors', and tests check these by simulation. `matching` is what `kalathil2014`
and `nayyar2016` share. Further models are in `coopbandits.models`, whose drivers, dice and outcomes
these use; `catalogue` has all of them by name, for the command line.
"""

from coopbandits.literature.awerbuch2008 import collaborate
from coopbandits.literature.besson2018 import RandTopM, Selfish
from coopbandits.literature.kalathil2014 import ducb4
from coopbandits.literature.matching import Matched, auction, best_matching
from coopbandits.literature.nayyar2016 import de3
from coopbandits.literature.shahrampour2017 import majority_vote
from coopbandits.literature.xu2015 import global_feedback

__all__ = [
    "Matched",
    "RandTopM",
    "Selfish",
    "auction",
    "best_matching",
    "collaborate",
    "de3",
    "ducb4",
    "global_feedback",
    "majority_vote",
]
