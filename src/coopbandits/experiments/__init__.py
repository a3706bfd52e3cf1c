"""Experiments that ship with the package: settings as data, code to run and to score them."""
