"""What a real agent costs, beside a bare ping-pong over the same transport; see `run`."""
