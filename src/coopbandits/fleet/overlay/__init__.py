"""Members come and go: agents that find each other, and keep a connected network of random links.

`hyparview.py` is the protocol as a state machine, without clock, socket or random source;
with what it remembers of agents that are no neighbours; `messages.py` is what it sends. None
of these imports anything else of the fleet, so that thousands of them can be played in one process.
`members.py` drives one over the links of a real agent.
"""
