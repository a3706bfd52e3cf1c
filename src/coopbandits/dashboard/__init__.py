"""What `coopbandits dashboard` serves: the page, over a stored simulation or a running fleet."""
