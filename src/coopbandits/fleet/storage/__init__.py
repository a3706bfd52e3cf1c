"""What an agent remembers: a journal of events, and the state that replaying them gives."""
