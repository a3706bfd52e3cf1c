"""The checks behind `check_policy`, by subject: calls and messages, state, knowledge."""
