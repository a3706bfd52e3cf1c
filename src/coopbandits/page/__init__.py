"""The page over a fleet or a stored simulation: its files, and what it is told."""
