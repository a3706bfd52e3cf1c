"""What the contract leaves open: addresses, back-off, and files that change under way."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.certs import renew
from coopbandits.fleet.identity.tls import ALPN
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.transport import Witness

from .nodes import PATIENCE, QUICK, agent, credentials, places, until

HERE = Address("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("listen", "neighbor"),
    [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "10.0.0.1"), ("127.0.0.1", "example.org")],  # noqa: S104  refused
)
def test_with_throwaway_certificates_nobody_outside_may_be_involved(
    listen: str, neighbor: str
) -> None:
    places = Address(listen, 7400), {"alpha": Address(neighbor, 7400)}
    with pytest.raises(InputError, match=r"not on the loopback interface, and there is no \[tls\]"):
        TcpTransport("beta", *places, credentials(None, "beta"))
    transport = TcpTransport("beta", HERE, {"alpha": HERE}, credentials(None, "beta"))
    with pytest.raises(InputError, match="not on the loopback interface"):
        transport.move("alpha", Address("10.0.0.1", 7400))


def test_an_agent_is_not_its_own_neighbour() -> None:
    with pytest.raises(InputError, match="own neighbour"):
        TcpTransport("alpha", HERE, {"alpha": HERE}, credentials(None, "alpha"))


def test_an_address_in_use_is_one_sentence() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = Address(*taken.getsockname())
            transport = TcpTransport("alpha", place, {}, credentials(None, "alpha"))
            with pytest.raises(
                InputError, match=r"'alpha' cannot listen on 127\.0\.0\.1:\d+ \(Add"
            ):
                await transport.start(Witness("alpha"))
            await transport.stop()

    asyncio.run(scenario())


def test_names_of_hosts_are_looked_up() -> None:
    async def scenario() -> None:
        host, proof = Address("localhost", 0), credentials(None, "alpha")
        alpha = TcpTransport("alpha", host, {"beta": HERE}, proof, timing=QUICK)
        witness = Witness("alpha")
        await alpha.start(witness)
        where = {"alpha": Address("localhost", alpha.address[1])}
        async with agent("beta", None, where) as (_, at_beta):
            await until(lambda: at_beta.ups and witness.ups)
        await alpha.stop()

    asyncio.run(scenario())


def test_silence_is_no_refusal_and_pauses_grow() -> None:
    """Nobody listens: the transport tries again, less and less often, and says nothing."""

    async def scenario() -> None:
        drawn: list[float] = []

        def uniform() -> float:
            drawn.append(asyncio.get_running_loop().time())
            return 1.0

        with places("alpha") as at:
            timing = Timing(first_pause=0.01, longest_pause=0.08)
            proof = credentials(None, "beta")
            beta = TcpTransport("beta", HERE, at, proof, timing=timing, uniform=uniform)
            witness = Witness("beta")
            await beta.start(witness)
            await until(lambda: len(drawn) >= 6)
            await beta.stop()
        assert witness.events == 0
        gaps = [later - sooner for sooner, later in itertools.pairwise(drawn)]
        for gap, least in zip(gaps, (0.01, 0.015, 0.0225, 0.03375, 0.050625), strict=False):
            assert gap >= 0.99 * least

    asyncio.run(scenario())


def test_an_unknown_host_is_no_refusal(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "alpha.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def scenario() -> None:
        where = {"alpha": Address("alpha.invalid", 7400)}
        async with agent("beta", certificates, where) as (_, witness):
            await asyncio.sleep(0.05)
            assert witness.events == 0

    asyncio.run(scenario())


def test_a_new_connection_uses_the_certificate_of_today(certificates: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(certificates, tmp_path / "copy"))

    async def scenario() -> None:
        async with (
            agent("alpha", folder, {"beta": HERE}) as (alpha, _),
            agent("beta", folder, {"alpha": alpha.address}) as (beta, at_beta),
        ):
            await until(lambda: at_beta.ups)
            before = alpha.credentials.expires
            renew(folder, everything=True, days=300)
            beta.drop("alpha", "to see the new one")
            await until(lambda: len(at_beta.ups) == 2)
            assert alpha.credentials.expires > before + 86400

    asyncio.run(scenario())


def test_what_was_sent_before_a_drop_arrives(certificates: Path) -> None:
    """So that a refusal can say why."""

    async def scenario() -> None:
        async with (
            agent("alpha", certificates, {"beta": HERE}) as (alpha, at_alpha),
            agent("beta", certificates, {"alpha": alpha.address}) as (_, at_beta),
        ):
            await until(lambda: at_beta.ups and at_alpha.ups)
            alpha.send("beta", b"another cluster" * 1000)
            alpha.drop("beta", "another cluster")
            assert not alpha.send("beta", b"too late")
            heard = at_beta.heard["alpha"]
            await until(lambda: at_beta.downs)
            assert heard == b"another cluster" * 1000

    asyncio.run(scenario())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_link_ends_where_its_listener_fails() -> None:
    """Half of a message handled is worse than a link that has to be made again."""

    async def scenario() -> None:
        logged: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: logged.append(what))
        async with (
            agent("alpha", None, {"beta": HERE}) as (alpha, at_alpha),
            agent("beta", None, {"alpha": alpha.address}) as (beta, at_beta),
        ):
            await until(lambda: at_alpha.up and at_beta.up)
            at_alpha.heard = {"beta": None}  # type: ignore[dict-item]  # cannot be added to
            beta.send("alpha", b"bytes")
            await until(lambda: len(at_beta.ups) == 2)
        assert at_alpha.downs[0] == ("beta", "what it sent could not be handled")
        assert isinstance(logged[0]["exception"], AttributeError)

    asyncio.run(scenario())


def test_keys_may_be_changed_under_way(certificates: Path) -> None:
    """The ssl module cannot ask for it, but other ends can: here K at the beginning of a line."""
    files = {"-cert": "beta.pem", "-key": "beta-key.pem", "-CAfile": "ca.pem"}
    proof = [text for key, name in files.items() for text in (key, str(certificates / name))]

    async def scenario() -> None:
        async with agent("alpha", certificates, {"beta": HERE}) as (alpha, witness):
            client = "openssl", "s_client", "-tls1_3", "-alpn", ALPN, "-connect", str(alpha.address)
            beta = await asyncio.create_subprocess_exec(
                *client, *proof, stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
            assert beta.stdin and beta.stdout and beta.stderr
            beta.stdin.write(b"\x04beta")
            await until(lambda: witness.ups)
            heard = witness.heard["beta"]
            for number in (1, 2, 3):
                beta.stdin.write(b"K\n")
                await asyncio.wait_for(beta.stderr.readuntil(b"KEYUPDATE\n"), PATIENCE)
                alpha.send("beta", b"question")
                await asyncio.wait_for(beta.stdout.readuntil(b"question"), PATIENCE)
                beta.stdin.write(b"answer\n")
                await until(lambda: len(heard) >= 7 * number)  # noqa: B023  it is called at once
            assert heard == b"answer\n" * 3
            beta.stdin.close()
            await asyncio.wait_for(beta.communicate(), PATIENCE)

    asyncio.run(scenario())


def test_stop_does_not_wait_for_a_neighbour_that_hangs(certificates: Path) -> None:
    """Its system still acknowledges bytes, but nobody reads them."""

    async def scenario() -> None:
        async with agent("alpha", certificates, {"beta": HERE}) as (alpha, at_alpha):
            timing = Timing(close=0.1)
            proof = credentials(certificates, "beta")
            beta = TcpTransport("beta", HERE, {"alpha": alpha.address}, proof, timing=timing)
            await beta.start(at_beta := Witness("beta"))
            await until(lambda: at_beta.ups and at_alpha.ups)
            (hanging,) = alpha.connections
            assert hanging.stream is not None
            asyncio.get_running_loop().remove_reader(hanging.stream.sock)
            while beta.send("alpha", bytes(1 << 20)):
                if next(iter(beta.connections)).stream.waiting:  # type: ignore[union-attr]  # it is up
                    break
            await asyncio.wait_for(beta.stop(), 90)
            assert not beta.connections

    asyncio.run(scenario())
