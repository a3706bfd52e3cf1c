"""How agents talk: frames, rounds of gossip, and what is believed of a neighbour's claims."""
