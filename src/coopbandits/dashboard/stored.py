"""A stored simulation on the page: the agents' preferences, frame by frame, for every policy.

Everything follows from pulls and rewards per frame, agent and arm, which `simulate` keeps with
``keep="watch"``. Means are of all pulls so far; their interval is mean ± 1.96 σ/√n with the σ that
the agents use. Since n depends on rewards, it contains the mean in 91 to 95 % of cases. An agent
prefers the arm that it pulled most within the frame.

`StoredRun` computes what is shown, and `StoredSite` serves it over HTTP.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import Shown
from coopbandits.fleet.api.messages import JSON, Answer
from coopbandits.fleet.api.site import EVENTS, FRESH, ROOT, Endpoint, Request
from coopbandits.network import parse_faults
from coopbandits.results import Result

VERSION = 1
QUANTILE = 1.96
DIGITS = 4
MOST_CHANGES = 40
AGREED = 0.9
LASTING = 5
"""Agents agree once this share of them has preferred one arm for this many frames."""

Rows = NDArray[Any]


class StoredRun:
    """The recorded run of a result.

    Parameters
    ----------
    result : Result
        Simulated with ``keep="watch"``.
    """

    def __init__(self, result: Result) -> None:
        if not {"watch_pulls", "watch_stages"} <= set(result.dataset):
            raise InputError(
                "this result was not stored for watching, or by an older version; simulate again "
                'with keep="watch", or on the command line: '
                "coopbandits simulate … --keep watch --out FOLDER"
            )
        self.result, data = result, result.dataset
        self.rounds = data["frame"].values
        means = data.get("watch_means")  # absent where every context has its own
        self.means = None if means is None else means.values
        self.sigma = float(data["watch_sigma"])
        self.num_agents, self.num_arms = data.sizes["agent"], data.sizes["arm"]
        self.arms = _names(data["arm"].values, "arm ")

    @classmethod
    def load(cls, folder: Path) -> StoredRun:
        """Read a folder written by `coopbandits simulate` or `Result.save`."""
        return cls(Result.load(folder))

    def scene(self) -> dict[str, Any]:
        """Return the fixed layout: agents, links, arms, policies, and the ends of frames."""
        settings, data = self.result.meta["settings"], self.result.dataset
        title = f"{settings['network']['description']}, {self.num_arms} arms, T = "
        title += f"{self.result.horizon}, seed {settings['seed']}"
        faults = settings.get("faults")
        labels = data["agent"].values if "agent" in data.coords else np.arange(self.num_agents)
        return {
            "version": VERSION,
            "source": "simulation",
            "title": f"{title}, {faults}" if faults else title,
            "bandits": [""],
            "arms": self.arms,
            "agents": [{"name": name, "policy": ""} for name in _names(labels, "agent ")],
            "links": data["watch_links"].values.tolist(),
            "panels": self.result.policies,
            "rounds": self.rounds.tolist(),
            "regret": True,
            "contexts": self.means is None,
            "truth": None if self.means is None else _plain(self.means),
        }

    def track(self, panel: int) -> dict[str, Any]:
        """Return one policy by frame: every agent's preference, and the network's numbers."""
        pulls, rewards = self._frames(panel)
        preferred = _preferred(pulls)
        network, paid = pulls.sum(axis=1, dtype=np.int64), rewards.sum(axis=1, dtype=np.float64)
        numbers = self._estimates(network, paid)
        wide = self.num_arms > 254
        absent, kind = (65535, "<u2") if wide else (255, "u1")
        codes = np.where(preferred < 0, absent, preferred).astype(kind)
        common, disagree = _disagreement(preferred, self.num_arms)
        return {
            "arm": base64.b64encode(codes.tobytes()).decode("ascii"),
            "wide": wide,
            **{name: _plain(values) for name, values in numbers.items()},
            **self._ahead(network.cumsum(axis=0), paid.cumsum(axis=0)),
            "regret": _plain(self.result.dataset["watch_regret"].values[panel]),
            "disagree": _plain(disagree),
            "stages": self._stages(panel),
            "marks": sorted(
                (
                    *self._news(panel),
                    *self._changes(),
                    *self._faults(),
                    *self._turns(common, disagree),
                ),
                key=lambda mark: int(mark["round"]),
            ),
        }

    def agent(self, panel: int, agent: int) -> dict[str, Any]:
        """Return one agent's own pulls by frame: share, mean and interval per arm."""
        if not 0 <= agent < self.num_agents:
            raise InputError(f"agent {agent} does not exist; there are {self.num_agents}, from 0")
        pulls, rewards = self._frames(panel)
        numbers = self._estimates(pulls[:, agent], rewards[:, agent])
        return {name: _plain(values) for name, values in numbers.items()}

    def _frames(self, panel: int) -> tuple[Rows, Rows]:
        policies = self.result.policies
        if not 0 <= panel < len(policies):
            raise InputError(f"panel {panel} does not exist; there are {len(policies)}, from 0")
        data = self.result.dataset
        return data["watch_pulls"].values[panel], data["watch_rewards"].values[panel]

    def _estimates(self, pulls: Rows, rewards: Rows) -> dict[str, Vector]:
        """Return shares within frames, and means with intervals of all pulls so far."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share = pulls / pulls.sum(axis=1, keepdims=True)
            so_far = pulls.cumsum(axis=0, dtype=np.int64)
            mean = rewards.cumsum(axis=0, dtype=np.float64) / so_far
            half = np.where(so_far > 0, QUANTILE * self.sigma / np.sqrt(so_far), np.nan)
        return {"share": share, "mean": mean, "low": mean - half, "high": mean + half}

    def _ahead(self, pulls: Rows, rewards: Rows) -> dict[str, list[Any]]:
        """Return the arm with the largest mean, and the probability that it beats its rivals."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(pulls > 0, rewards / pulls, -math.inf)
            best = mean.argmax(axis=1)
            rows = np.arange(best.size)
            spread = self.sigma * np.sqrt(1 / pulls[rows, best][:, None] + 1 / pulls)
            better = ndtr((mean[rows, best][:, None] - mean) / spread)
        better[rows, best] = math.inf
        better[pulls == 0] = 0.5  # nothing is known of an arm without pulls
        sure = np.minimum(better.min(axis=1), 1.0)
        # With contexts no arm is ahead: each was played on the requests for which it is good.
        known = (pulls.sum(axis=1) > 0) & (self.means is not None)
        return {
            "ahead": np.where(known, best, -1).tolist(),
            "sure": _plain(np.where(known, sure, np.nan)),
        }

    def _stages(self, panel: int) -> list[int]:
        """Return the end of the first stage and the length of all; empty without stages."""
        stages: list[int] = self.result.dataset["watch_stages"].values[panel].tolist()
        return stages if stages[1] else []

    def _news(self, panel: int) -> Iterator[dict[str, Any]]:
        """Yield a mark at the end of the first stage; the page draws ticks for the others."""
        first, length = self._stages(panel) or (math.inf, 0)
        if first <= self.result.horizon:
            text = f"the first stage of mixing, of {length} rounds, ends: "
            text += "agents now use what all had pulled before"
            yield {"round": first, "kind": "stage", "text": text}

    def _changes(self) -> Iterator[dict[str, Any]]:
        """Yield a mark where rewards change, unless they change all the time."""
        rounds = self.result.dataset["watch_changes"].values
        for at in rounds.tolist() if rounds.size <= MOST_CHANGES else ():
            yield {"round": at, "kind": "world", "text": "rewards change"}

    def _faults(self) -> Iterator[dict[str, Any]]:
        """Yield a mark where a fault begins and ends, if that is scheduled."""
        for kind in parse_faults(self.result.meta["settings"].get("faults", "none")).kinds:
            for name, word in (("start", "begins"), ("stop", "ends")):
                at = getattr(kind, name, None)
                if isinstance(at, int) and at <= self.result.horizon:
                    yield {"round": at, "kind": "fault", "text": f"{kind.spelling} {word}"}

    def _turns(self, common: Rows, disagree: Vector) -> Iterator[dict[str, Any]]:
        """Yield a mark where agents begin to agree on another arm."""
        choice = np.where(disagree <= 1.0 - AGREED, common, -1)
        agreed = -1
        for frame in range(choice.size - LASTING + 1):
            arm = int(choice[frame])
            if arm not in (-1, agreed) and (choice[frame : frame + LASTING] == arm).all():
                agreed = arm
                text = f"over {AGREED:.0%} of the agents prefer {self.arms[arm]} from here on"
                yield {"round": int(self.rounds[frame]), "kind": "agreed", "text": text}


def _names(values: Rows, prefix: str) -> list[str]:
    """Return names as text; numbers get a prefix."""
    return [f"{prefix}{value}" if values.dtype.kind in "iu" else str(value) for value in values]


def _preferred(pulls: Rows) -> NDArray[np.int64]:
    """Return the arm that each agent pulled most within each frame; −1 without pulls.

    Ties go to the arm pulled most in earlier frames.
    """
    found = np.empty(pulls.shape[:2], dtype=np.int64)
    before = np.zeros(pulls.shape[1:])
    for frame, now in enumerate(pulls):  # one by one: all frames at once would take a GB
        weight = now + before / (before.sum(axis=1, keepdims=True) + 1.0)
        found[frame] = np.where(now.any(axis=1), weight.argmax(axis=1), -1)
        before += now
    return found


def _disagreement(preferred: NDArray[np.int64], num_arms: int) -> tuple[Rows, Vector]:
    """Return the arm most preferred in each frame, and the share of agents that prefer another."""
    votes = np.stack([np.bincount(row[row >= 0], minlength=num_arms) for row in preferred])
    with np.errstate(invalid="ignore"):
        return votes.argmax(axis=1), 1.0 - votes.max(axis=1) / votes.sum(axis=1)


def _plain(values: Vector) -> list[Any]:
    """Return nested lists of numbers with few digits, for JSON."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        rounded = np.where(np.isfinite(scale), np.rint(values * scale) / scale, values)
    plain: list[Any] = rounded.tolist()
    return plain


class StoredSite(Shown):
    """The page over a stored simulation: its scene, tracks and agents over HTTP."""

    def __init__(self, run: StoredRun) -> None:
        super().__init__()
        self.shown = run
        self._scene = b"event: scene\ndata: %s\n\n" % msgspec.json.encode(run.scene())
        self._tracks: dict[int, Answer] = {}
        self.endpoints |= {
            f"{ROOT}events": Endpoint("GET", self.events),
            f"{ROOT}track": Endpoint("GET", self.track),
            f"{ROOT}agent": Endpoint("GET", self.agent),
        }

    def events(self, _: Request) -> Answer:
        """Send the scene; the stream stays open, so that the page sees that the server is up."""
        return self.streamed(EVENTS, lambda: partial(next, iter([self._scene]), b""), FRESH)

    def track(self, request: Request) -> Answer:
        """Return one policy by frame, computed on the first request."""
        (panel,) = _numbers(request, "panel")
        if panel not in self._tracks:
            self._tracks[panel] = _data(self.shown.track(panel))
        return self._tracks[panel]

    def agent(self, request: Request) -> Answer:
        """Return one agent by frame."""
        return _data(self.shown.agent(*_numbers(request, "panel", "agent")))


def _numbers(request: Request, *names: str) -> list[int]:
    given = dict(parse_qsl(request.route.query))
    for name in names:
        if not (given.get(name, "").isdecimal() and len(given[name]) < 10):
            example = "&".join(f"{each}=0" for each in names)
            raise InputError(
                f"{name} is {given.get(name, '')[:40]!r}; ask {request.route.path}?{example}"
            )
    return [int(given[name]) for name in names]


def _data(found: dict[str, Any]) -> Answer:
    """Return an answer; NaN becomes null."""
    return Answer(200, msgspec.json.encode(found), JSON, (FRESH,))
