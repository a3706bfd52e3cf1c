"""All models of the literature by name, ``ducb4:step=0.02``, as the command line runs them."""

from __future__ import annotations

from coopbandits.core.registry import Registry, concrete
from coopbandits.core.spelling import parse_named
from coopbandits.literature.awerbuch2008 import Collaborate
from coopbandits.literature.besson2018 import RandTopMModel, SelfishModel
from coopbandits.literature.kalathil2014 import DUCB4Model
from coopbandits.literature.nayyar2016 import DE3Model
from coopbandits.literature.shahrampour2017 import MajorityVote
from coopbandits.literature.xu2015 import GlobalFeedback
from coopbandits.models import catalogue
from coopbandits.models.catalogue import Model

CLASSES: tuple[type[Model], ...] = (
    *catalogue.MODELS, RandTopMModel, SelfishModel, DUCB4Model, DE3Model, MajorityVote,
    GlobalFeedback, Collaborate,
)  # fmt: skip
MODELS: Registry[type[Model]] = Registry(
    "model",
    "coopbandits.models",
    {cls.name: cls for cls in CLASSES},
    concrete(Model),
    "a frozen dataclass derived from coopbandits.models.catalogue.Model that writes play",
)
Model.registry = MODELS


def parse_model(text: str) -> Model:
    """Read ``mc-top-m`` or ``pull-or-tell:eagerness=3``."""
    return parse_named(MODELS, text)
