"""Labelled results, storage, statistics."""

from coopbandits.results.result import Result
from coopbandits.results.statistics import Summary

__all__ = ["Result", "Summary"]
