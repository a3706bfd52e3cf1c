"""The version, in the one place where it stands; it is in a module that imports nothing."""

__version__ = "0.2.0"
