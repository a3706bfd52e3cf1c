"""`coopbandits dashboard`: the page over a stored simulation or a running fleet."""
