"""Experiments that ship with the package: settings as data, run, score."""
