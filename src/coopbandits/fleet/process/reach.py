"""Tries whether a neighbour can be reached, and whether both ends accept each other's certificate.

The handshake names another protocol than agents speak. So the neighbour proves itself and looks at
this certificate, then hangs up: no link begins, and none that is up is replaced. Its log says that
somebody in this agent's name does not speak its protocol.
"""

from __future__ import annotations

import socket
import ssl

from coopbandits.finding import BROKEN, Finding
from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import Credentials, peer_name, reason_of

PROTOCOL = "coopbandits/doctor"

PATIENCE = 3.0
"""Seconds for connecting, and for each step of the handshake."""


def reach(what: str, name: str, place: Address, credentials: Credentials) -> Finding:
    """Try to reach an agent."""
    try:
        with socket.create_connection(place, timeout=PATIENCE) as plain:
            return _shake_hands(what, name, place, plain, credentials)
    except socket.gaierror as error:
        found = f"its host {place.host} has no address: {error.strerror}"
        return Finding(what, found, BROKEN, "correct its address in [[neighbors]], or the DNS")
    except OSError as error:
        found = f"cannot be reached at {place}: {reason_of(error)}"
        return Finding(what, found, BROKEN, "start it; else look at its listen, and at firewalls")


def _shake_hands(
    what: str, name: str, place: Address, plain: socket.socket, credentials: Credentials
) -> Finding:
    context = credentials.contexts().client
    context.set_alpn_protocols([PROTOCOL])
    try:
        with context.wrap_socket(plain) as secure:
            found = peer_name(secure.getpeercert())
            if found != name:
                there = f"at {place} there is {found or 'somebody without one name'}, not {name}"
                return Finding(what, there, BROKEN, "correct its address in [[neighbors]]")
            _hear_verdict(secure)
    except ssl.SSLCertVerificationError as error:
        wrong = f"its certificate does not hold: {reason_of(error)}"
        return Finding(what, wrong, BROKEN, "renew it there: coopbandits certs renew")
    except ssl.SSLError as error:
        wrong = f"it does not accept this agent's certificate: {reason_of(error)}"
        mend = "use one authority for all agents, and look at the clock there"
        return Finding(what, wrong, BROKEN, mend)
    return Finding(what, f"answers at {place}; both certificates hold")


def _hear_verdict(secure: ssl.SSLSocket) -> None:
    """Wait until it hangs up; with TLS 1.3 an alert that refuses the certificate comes only now."""
    try:
        secure.recv(1)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        return
