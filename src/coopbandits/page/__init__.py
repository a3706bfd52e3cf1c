"""The page over a fleet or a stored simulation: its files, and the data that it shows."""
