"""The gallery: further experiments about the paper, each one command."""

from coopbandits.experiments.gallery.entries import ENTRIES, Entry, Point
from coopbandits.experiments.gallery.outcome import Outcome, Series
from coopbandits.experiments.gallery.run import run_gallery

__all__ = ["ENTRIES", "Entry", "Outcome", "Point", "Series", "run_gallery"]
