"""One real agent beside an application: transports, TLS, journal, HTTP API, metrics."""
