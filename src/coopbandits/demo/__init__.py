"""`coopbandits demo`: real agents choose how to compress real files, and one of them dies."""
