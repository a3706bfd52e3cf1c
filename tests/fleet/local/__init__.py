"""Tests of a local fleet."""
