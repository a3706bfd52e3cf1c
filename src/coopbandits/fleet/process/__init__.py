"""Runs one agent: in a process of its own, or embedded in a program of yours."""
