"""The cluster's document: what all agents shall do, signed by an operator and spread by gossip."""
