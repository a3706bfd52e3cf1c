"""Agents on this machine: `LocalAgent` inside your own program, or a whole fleet to try out."""

from coopbandits.fleet.process.embedded import LocalAgent

__all__ = ["LocalAgent"]
