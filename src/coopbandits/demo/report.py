"""What a demo leaves behind: a figure, and all measurements as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from coopbandits.demo.options import OPTIONS
from coopbandits.demo.story import RECENT, Story
from coopbandits.plots import Curve, Moment, figure_bytes, timeline_figure
from coopbandits.plots.writing import write_files

FIGURE, TABLE = "demo.png", "measurements.csv"
HEAD = ("second", "application", "option", "bytes", "compressed_bytes", "cpu_seconds", "reward")


def write_report(story: Story, folder: Path) -> list[Path]:
    """Write both files; return their paths."""
    figure = timeline_figure(
        story.times,
        list(OPTIONS),
        story.shares(),
        [
            Curve("with agents", story.times, story.rewards(story.advised)),
            Curve("all in turn", story.times, story.rewards(story.blind)),
        ],
        [Moment(*mark) for mark in story.marks],
        ylabel="reward of a file",
        title=f"What six agents chose, in the last {RECENT:g} s",
    )
    contents = {
        folder / FIGURE: figure_bytes(figure, "png"),
        folder / TABLE: table(story).encode(),
    }
    write_files(contents)
    return list(contents)


def table(story: Story) -> str:
    """Return all measurements as CSV, in the order of time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for deed in sorted(story.advised + story.blind):
        size, compressed, seconds = deed.found
        row = (
            deed.who,
            deed.option,
            size,
            compressed,
            f"{seconds:.6f}",
            f"{deed.found.reward:.4f}",
        )
        writer.writerow((f"{deed.moment:.3f}", *row))
    return text.getvalue()
