"""Benchmarks: simulations (`engine`, `settings`), real agents (`fleet`), and the GPU (`gpu`)."""
