"""`Result`: labelled numbers of some runs, with tables, figures and storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import xarray as xr

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.plots import (
    Curve,
    Section,
    Table,
    agents_figure,
    drawing,
    figure_bytes,
    html_fragment,
    html_page,
    regret_figure,
    traffic_figure,
)
from coopbandits.plots.traffic import traffic_point
from coopbandits.plots.writing import write_files, write_text
from coopbandits.results import frames, sites, statistics, storage
from coopbandits.results.intervals import mean_intervals
from coopbandits.results.stops import stop_curves, summarise_stops

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {"rounds": "round", "values": "values sent by all agents"}
REGRETS = {
    "own": "cumulative regret of the network (reward)",
    "global": "cumulative regret against the network's mean (reward)",
    "worst": "cumulative regret of the worst agent (reward)",
}


class Result:
    """What `simulate` returns.

    Parameters
    ----------
    dataset : xarray.Dataset
        `regret`, `global_regret`, `worst_regret`, `realized_regret`, `values_sent`
        (policy, run, round), `messages_sent` (policy, run), `pulls` (policy, run, arm);
        `agent_pulls` (policy, run, agent, arm), `agent_regret` (policy, run, agent, round) and
        `arms` (policy, run, agent, pull) where they were kept; `messages_delivered`,
        `messages_late` and `messages_lost` (policy, run) where there were faults or clocks;
        `stop_round`, `stop_arm` and `stop_wrong` (policy, run, agent) where there was a rule.
    meta : dict
        Settings, seed, versions, platform, engine, wall time.
    """

    def __init__(self, dataset: xr.Dataset, meta: Mapping[str, Any]) -> None:
        self.dataset = dataset
        self.meta = dict(meta)

    def __repr__(self) -> str:
        policies = ", ".join(self.policies)
        return f"Result({policies}; {self.dataset.sizes['run']} runs, {self.horizon} rounds)"

    def _repr_html_(self) -> str:
        heading, rows = self.summary().tables[0]
        return html_fragment(Table(rows, heading))

    @property
    def policies(self) -> list[str]:
        """The policies' spellings, in the order given."""
        return [str(name) for name in self.dataset["policy"].values]

    @property
    def horizon(self) -> int:
        """The last round."""
        return int(self.dataset["round"].values[-1])

    @property
    def regret(self) -> xr.DataArray:
        """Cumulative pseudo-regret of the network (policy, run, round).

        Every agent is held to its own best arm of the moment.
        """
        return self.dataset["regret"]

    @property
    def global_regret(self) -> xr.DataArray:
        """The same against the best arm of the network's mean (policy, run, round).

        That mean is over all agents, in every round. It is `regret` where all agents have the same
        arms.
        """
        return self.dataset["global_regret"]

    @property
    def worst_regret(self) -> xr.DataArray:
        """Regret of the agent that has most of it so far (policy, run, round)."""
        return self.dataset["worst_regret"]

    @property
    def realized_regret(self) -> xr.DataArray:
        """Best mean times pulls, minus the rewards actually paid (policy, run, round)."""
        return self.dataset["realized_regret"]

    @property
    def pulls(self) -> xr.DataArray:
        """Pulls of each arm (policy, run, arm); with keep="agents" (policy, run, agent, arm)."""
        return self.dataset["agent_pulls" if "agent_pulls" in self.dataset else "pulls"]

    @property
    def arms(self) -> xr.DataArray:
        """Every arm played (policy, run, agent, pull); needs keep="arms"."""
        if "arms" not in self.dataset:
            raise InputError('single arms were not kept; simulate with keep="arms"')
        return self.dataset["arms"]

    @property
    def agent_regret(self) -> xr.DataArray:
        """Regret of every agent (policy, run, agent, round); needs keep="curves" or "arms"."""
        if "agent_regret" not in self.dataset:
            raise InputError('regret of single agents was not kept; simulate with keep="curves"')
        return self.dataset["agent_regret"]

    @property
    def values_sent(self) -> xr.DataArray:
        """Values sent over all links (policy, run)."""
        return self.dataset["values_sent"].isel(round=-1, drop=True)

    @property
    def bytes_sent(self) -> xr.DataArray:
        """Payload bytes sent (policy, run): 8 per value."""
        return 8 * self.values_sent

    @property
    def deliveries(self) -> xr.Dataset:
        """What became of the messages: sent, delivered, late, lost, under_way (policy, run).

        `late` messages are among the delivered, a round or more after they were sent; those
        `under_way` had not arrived by the end.
        """
        if "messages_lost" not in self.dataset:
            raise InputError(
                "every message was delivered in its round: there were no faults and no clocks; "
                "deliveries are only recorded where there are"
            )
        names = ("sent", "delivered", "late", "lost")
        found = xr.Dataset({name: self.dataset[f"messages_{name}"] for name in names})
        return found.assign(under_way=found["sent"] - found["delivered"] - found["lost"])

    def _mean_deliveries(self) -> tuple[statistics.Delivery, ...]:
        if "messages_lost" not in self.dataset:
            return ()
        means = self.deliveries.mean("run")
        return tuple(
            statistics.Delivery(
                policy, *(float(means[name][i]) for name in ("sent", "delivered", "late", "lost"))
            )
            for i, policy in enumerate(self.policies)
        )

    @property
    def final_worst(self) -> Vector:
        """The worst agent's regret at the end (policy, run)."""
        return self.worst_regret.isel(round=-1).values

    def summary(self) -> statistics.Summary:
        """Return mean, intervals, quantiles and paired comparisons of the final regret."""
        summary = statistics.summarise(
            self.policies,
            self.regret.isel(round=-1).values,
            self.values_sent.mean("run").values,
            self.horizon,
            self._mean_deliveries(),
            self.final_worst.mean(axis=1),
            self.global_regret.isel(round=-1).mean("run").values,
        )
        said = " ".join(filter(None, (summary.advice, sites.warning(self.dataset))))
        return replace(summary, stops=summarise_stops(self.dataset), advice=said)

    @property
    def site_spread(self) -> xr.DataArray:
        """How far the means of sites are apart, by what their agents saw (policy, run).

        Measured where sites differ and single arms were kept, keep="curves" or more; so is
        `site_ratio` of the dataset, their scatter over what chance makes of it.
        """
        if "site_spread" not in self.dataset:
            raise InputError(
                "it was not measured how much sites differ; simulate a problem with cb.sites and "
                'keep="curves"'
            )
        return self.dataset["site_spread"]

    @property
    def stops(self) -> xr.Dataset:
        """When every agent could have stopped (policy, run, agent).

        `stop_round` counts the rounds played before and is −1, like `stop_arm`, where an agent was
        never sure; `stop_wrong` tells whether that arm is not good enough.
        """
        if "stop_round" not in self.dataset:
            raise InputError("it was not recorded when to stop; simulate with stop=0.95")
        return self.dataset[["stop_round", "stop_arm", "stop_wrong"]]

    @overload
    def plot(
        self,
        against: str = "rounds",
        *,
        of: str = "own",
        bounds: Mapping[str, Vector] | None = None,
        log: str = "",
        path: str | Path | None = None,
    ) -> Figure: ...
    @overload
    def plot(
        self,
        against: str = "rounds",
        *,
        of: str = "own",
        bounds: Mapping[str, Vector] | None = None,
        log: str = "",
        path: str | Path | None = None,
        ax: Axes,
    ) -> Axes: ...
    def plot(
        self,
        against: str = "rounds",
        *,
        of: str = "own",
        bounds: Mapping[str, Vector] | None = None,
        log: str = "",
        path: str | Path | None = None,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw mean regret with its 95 % band; return the figure, or `ax` where that is given.

        Parameters
        ----------
        against : {"rounds", "values"}
            The horizontal axis: rounds, or values sent.
        of : {"own", "global", "worst"}
            Which regret: of the network, against every agent's own best arm or against that of the
            network's mean; or of the worst agent.
        bounds : dict of str to array, optional
            Further lines over the recorded rounds, drawn dashed.
        log : {"", "x", "y", "xy"}
            Which axes are logarithmic.
        path : path, optional
            Where to save it as well; the suffix sets the format.
        ax : matplotlib.axes.Axes, optional
            Where to draw instead of a new figure.
        """
        if against not in AXES:
            raise unknown_name("horizontal axis", against, AXES)
        if bounds and against != "rounds":
            raise InputError("bounds are functions of the round; plot against='rounds'")
        if of not in REGRETS:
            raise unknown_name("regret", str(of), REGRETS)
        curves = [self.curve(policy, against, of) for policy in self.policies]
        dashed = [self._bound(name, values) for name, values in (bounds or {}).items()]
        figure = regret_figure(
            curves, dashed, xlabel=AXES[against], ylabel=REGRETS[of], log=_scales(log), ax=ax
        )
        return _delivered(figure, path, ax)

    @overload
    def plot_agents(
        self, policy: str | None = None, *, log: str = "", path: str | Path | None = None
    ) -> Figure: ...
    @overload
    def plot_agents(
        self, policy: str | None = None, *, log: str = "", path: str | Path | None = None, ax: Axes
    ) -> Axes: ...
    def plot_agents(
        self,
        policy: str | None = None,
        *,
        log: str = "",
        path: str | Path | None = None,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw the mean regret of every agent; needs keep="curves".

        Parameters
        ----------
        policy : str, optional
            Whose agents; not needed where there is only one policy.
        log, path, ax
            As for `plot`.
        """
        if policy is None and len(self.policies) > 1:
            raise InputError(
                f"there are agents of several policies; name one of {', '.join(self.policies)}"
            )
        name = policy or self.policies[0]
        curves = self.agent_curves(name)
        figure = agents_figure(curves, log=_scales(log), title=name.replace("$", r"\$"), ax=ax)
        return _delivered(figure, path, ax)

    def plot_traffic(self, *, of: str = "own", path: str | Path | None = None) -> Figure:
        """Draw the final regret of every policy against the values it sent.

        Parameters
        ----------
        of, path
            As for `plot`.
        """
        if of not in REGRETS:
            raise unknown_name("regret", str(of), REGRETS)
        sent = self.values_sent.mean("run").values.tolist()
        points = [
            traffic_point(self.curve(policy, of=of), values)
            for policy, values in zip(self.policies, sent, strict=True)
        ]
        return _saved(traffic_figure(points, xlabel=AXES["values"], ylabel=REGRETS[of]), path)

    def plot_stops(self, *, log: str = "x", path: str | Path | None = None) -> Figure:
        """Draw in which share of the runs all agents could have stopped; needs stop=0.95.

        Parameters
        ----------
        log, path
            As for `plot`.
        """
        curves = stop_curves(self.stops, self.horizon)
        figure = regret_figure(
            curves, [], xlabel="round", ylabel="runs in which all could stop", log=_scales(log)
        )
        return _saved(figure, path)

    def _bound(self, name: str, values: Vector) -> Curve:
        rounds = self.dataset["round"].values
        if np.shape(values) != rounds.shape:
            raise InputError(
                f"bound {name!r} has shape {np.shape(values)}; give one number for each of the "
                f"{rounds.size} recorded rounds, result.regret['round']"
            )
        return Curve(name, rounds, values)

    def curve(self, policy: str, against: str = "rounds", of: str = "own") -> Curve:
        """Return a policy's mean regret with its 95 % band; arguments as for `plot`."""
        self._check_policy(policy)
        kinds = {"own": "regret", "global": "global_regret", "worst": "worst_regret"}
        regret = getattr(self, kinds[of]).sel(policy=policy)
        if against == "rounds":
            x = self.dataset["round"].values
        else:
            x = self.dataset["values_sent"].sel(policy=policy).mean("run").values
        band = mean_intervals(regret.values.T) if regret.sizes["run"] > 1 else (None, None)
        return Curve(policy, x, regret.mean("run").values, *band)

    def agent_curves(self, policy: str) -> list[Curve]:
        """Return every agent's mean regret over the rounds; needs keep="curves"."""
        self._check_policy(policy)
        regret = self.agent_regret.sel(policy=policy).mean("run")
        rounds = self.dataset["round"].values
        names = [str(name) for name in regret["agent"].values]
        return [Curve(name, rounds, row) for name, row in zip(names, regret.values, strict=True)]

    def _check_policy(self, policy: str) -> None:
        if policy not in self.policies:
            raise unknown_name("policy of this result", str(policy), self.policies)

    def report(self, path: str | Path, *, drawn: bytes | None = None) -> Path:
        """Write one self-contained HTML page: settings, figures, tables.

        Parameters
        ----------
        path : path
            Where to.
        drawn : bytes, optional
            The file that ``plot(path="….svg")`` writes, where it has been drawn before.
        """
        summary = self.summary()
        figures = [
            ("Regret against rounds", drawing(self.plot(), drawn)),
            ("Regret against values sent", drawing(self.plot("values"))),
        ]
        sections = [
            Section("", figures=figures),
            *(
                Section(heading[0].upper() + heading[1:], tables=[Table(rows)])
                for heading, rows in summary.tables
            ),
        ]
        page = html_page("Regret of cooperative bandits", summary.advice, sections, self.meta)
        target = Path(path)
        write_text(target, page)
        return target

    def to_dataframe(self, table: str = "rounds") -> pd.DataFrame:
        """Return a tidy pandas table.

        Parameters
        ----------
        table : {"rounds", "runs", "arms", "agents", "stops"}
            A row per policy, run and recorded round; per policy and run, at the end; per policy,
            run, agent where kept, and arm; per policy, run, agent and round (keep="curves"); or per
            policy, run and agent, when it could have stopped (stop=0.95).
        """
        return frames.to_pandas(self.dataset, table)

    def to_polars(self, table: str = "rounds") -> pl.DataFrame:
        """Return a tidy polars table, as `to_dataframe` does."""
        return frames.to_polars(self.to_dataframe(table))

    def save(self, folder: str | Path) -> Path:
        """Write the result into a folder: `result.nc` and `meta.json`."""
        storage.save(Path(folder), self.dataset, self.meta)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read a saved result."""
        return cls(*storage.load(Path(folder)))


def _scales(log: str) -> str:
    if log not in ("", "x", "y", "xy"):
        raise InputError(f"log is {log!r}; give 'x', 'y', 'xy' or nothing")
    return log


def _delivered(figure: Figure, path: str | Path | None, ax: Axes | None) -> Figure | Axes:
    """Save a figure where wanted, and return what the caller does not have yet.

    The figure of given axes is left to its owner: pyplot would show it in a notebook once more.
    """
    figure = _saved(figure, path)
    return figure if ax is None else ax


def _saved(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        content = figure_bytes(figure, Path(path).suffix.lower().lstrip("."))
        write_files({Path(path): content})
    return figure
