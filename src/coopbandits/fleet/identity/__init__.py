"""Who an agent is, and how it proves that: names, certificates, mutual TLS."""
