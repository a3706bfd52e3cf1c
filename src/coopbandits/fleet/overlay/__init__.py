"""Members come and go: agents that find each other, and keep a connected network of random links.

`hyparview.py` is the protocol as a state machine, without clock, socket or random source;
`messages.py` is what it sends. Neither needs the rest of the fleet, so tests run thousands of
them in one process.
`members.py` drives one over the links of a real agent.
"""
