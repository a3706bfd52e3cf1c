"""The outcome of a gallery experiment: table, sentences, figure, CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.experiments.gallery.entries import Entry
from coopbandits.plots import Curve, scaling_figure
from coopbandits.results.intervals import mean_intervals
from coopbandits.results.statistics import columns, mean_text, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Series(NamedTuple):
    """One line of the figure: values are (point, run)."""

    label: str
    x: Vector
    values: Vector


@dataclass(frozen=True)
class Outcome:
    """An experiment with its numbers.

    Attributes
    ----------
    series : tuple of Series
        The numbers.
    failed : tuple of str
        What could not be played, with the error.
    """

    name: str
    entry: Entry
    series: tuple[Series, ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        axes = f"{self.entry.ylabel} (y) against {self.entry.xlabel} (x)"
        lines = [self.entry.question, axes, "", *columns(self._rows()), ""]
        return "\n".join([*lines, *(seen(series) for series in self.series)])

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("series", "x", "y, mean [95 % interval]")]
        for series in self.series:
            for x, values in zip(series.x, series.values, strict=True):
                rows.append((series.label, f"{x:.6g}", mean_text(values)))
        return rows

    def csv(self) -> str:
        """Return every number, one line per point and run."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", self.entry.xlabel, "run", self.entry.ylabel])
        for series in self.series:
            for x, values in zip(series.x.tolist(), series.values.tolist(), strict=True):
                writer.writerows([series.label, x, run, y] for run, y in enumerate(values))
        return file.getvalue()

    def figure(self) -> Figure:
        """Draw means with their 95 % bands."""
        return scaling_figure(
            [_curve(series) for series in self.series],
            xlabel=self.entry.xlabel,
            ylabel=self.entry.ylabel,
            title=self.entry.question,
        )


def seen(series: Series) -> str:
    """Return a sentence on what the numbers of a series show."""
    means = series.values.mean(axis=1)
    last, least = means.size - 1, int(means.argmin())
    if last == 0:
        return f"{series.label}: {_at(series, 0)}."
    text = f"{series.label}: {_at(series, 0)}, {_at(series, last)}"
    if means[least] < 0.99 * min(means[0], means[last]):
        text += f", lowest {_at(series, least)}"
    return f"{text}; fitted power of x: {mean_text(slopes(series), '{:.2f}'.format)}."


def slopes(series: Series) -> Vector:
    """Return the slope of ln y over ln x by least squares, for every run."""
    x = np.log(series.x) - np.log(series.x).mean()
    y = np.log(series.values)
    return np.asarray(x @ y / (x @ x))


def _at(series: Series, place: int) -> str:
    return f"{number(float(series.values[place].mean()))} at {series.x[place]:.4g}"


def _curve(series: Series) -> Curve:
    if series.values.shape[1] < 2:
        return Curve(series.label, series.x, series.values[:, 0])
    band = mean_intervals(series.values)
    return Curve(series.label, series.x, series.values.mean(axis=1), *band)
