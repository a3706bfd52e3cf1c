"""Who is not who they should be gets no link, over real TLS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.certs import init_authority, issue, request, sign_requests
from coopbandits.fleet.identity.tls import ALPN
from coopbandits.fleet.transport import tcp
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.testing.checks.transport import Witness

from ..identity.company import Company
from .nodes import PATIENCE, agent, credentials, until

HASTY = Timing(handshake=0.2, first_pause=0.01, longest_pause=0.1)


def client(folder: Path, node: str | None, alpn: str = ALPN) -> ssl.SSLContext:
    """Return how somebody dials who does not look at whom they talk to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    if node is not None:
        context.load_cert_chain(folder / f"{node}.pem", folder / f"{node}-key.pem")
    return context


def named(name: str) -> bytes:
    """Return how an agent begins: its id, after its length."""
    return bytes([len(name)]) + name.encode()


async def heard_by_caller(
    address: Address, context: ssl.SSLContext | None, say: bytes = b"", name: str = ""
) -> bytes:
    """Call, say something, and return all that is answered until the other end hangs up.

    With a `name`, say that first, and nothing else before the answer to it.
    """
    host = "" if context else None
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=host)
    except OSError:
        return b""
    try:
        begun = b""
        if name:
            writer.write(named(name))
            async with asyncio.timeout(PATIENCE):
                while not begun.endswith(b"\x01") and (more := await reader.read(1)):
                    begun += more
        writer.write(say)
        return begun + await asyncio.wait_for(reader.read(), PATIENCE)
    except OSError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


SOMEWHERE = {"beta": Address("127.0.0.1", 1)}
"""Where a neighbour is said to be that is never dialled."""


@pytest.mark.parametrize(
    ("who", "name", "reason"),
    [
        ("nobody", "", "no handshake"),
        ("somebody of another authority", "beta", "no handshake"),
        ("a stranger", "gamma", "'gamma' is no neighbour"),
        ("a stranger", "beta", "it says that it is 'beta', which its certificate does not have"),
        ("a stranger", "", "something else than its name"),
        ("itself", "alpha", "'alpha' is no neighbour"),
        ("another protocol", "", f"does not speak {ALPN}"),
        ("plain", "", "no handshake"),
        ("old", "", "no handshake"),
    ],
)
def test_callers_who_prove_nothing_are_refused(
    who: str, name: str, reason: str, certificates: Path, other_certificates: Path
) -> None:
    contexts = {
        "nobody": client(certificates, None),
        "somebody of another authority": client(other_certificates, "beta"),
        "a stranger": client(certificates, "gamma"),
        "itself": client(certificates, "alpha"),
        "another protocol": client(certificates, "beta", "h2"),
        "plain": None,
        "old": client(certificates, "beta"),
    }
    context = contexts[who]
    if who == "old" and context is not None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def scenario() -> None:
        async with agent("alpha", certificates, SOMEWHERE) as (alpha, witness):
            say = b"" if name else b"\x00 / HTTP/1.1\r\n\r\n"
            heard = await heard_by_caller(alpha.address, context, say, name)
            assert heard in (b"", named("alpha"))
            await until(lambda: witness.refusals)
            ((_, found),) = witness.refusals
            assert reason in found
            assert witness.ups == []

    asyncio.run(scenario())


def test_the_right_caller_is_welcome(certificates: Path) -> None:
    """Without this, the test above would pass for a transport that refuses everybody."""

    async def scenario() -> None:
        async with agent("alpha", certificates, SOMEWHERE) as (alpha, witness):
            call = asyncio.create_task(
                heard_by_caller(alpha.address, client(certificates, "beta"), b"hello", "beta")
            )
            await until(lambda: bytes(witness.heard.get("beta", b"")) == b"hello")
            alpha.send("beta", b"and goodbye")
            alpha.drop("beta", "enough")
            assert await call == named("alpha") + b"\x01and goodbye"
            assert witness.downs == [("beta", "enough")]

    asyncio.run(scenario())


def test_the_lower_id_must_wait_to_be_dialled(certificates: Path) -> None:
    async def scenario() -> None:
        async with agent("beta", certificates, {"alpha": Address("127.0.0.1", 1)}) as (
            beta,
            witness,
        ):
            called = await heard_by_caller(
                beta.address, client(certificates, "alpha"), name="alpha"
            )
            assert called == named("beta")
            await until(lambda: ("alpha", "'alpha' has the lower id") in short(witness))
            assert witness.ups == []

    def short(witness: Witness) -> list[tuple[str, str]]:
        return [(who, reason.partition(" and ")[0]) for who, reason in witness.refusals]

    asyncio.run(scenario())


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await reader.read()
    await hang_up(reader, writer)


async def say_something(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(named("alpha"))
    await reader.readexactly(len(named("beta")))
    writer.write(b"\x02\x01")
    await say_nothing(reader, writer)


@pytest.mark.parametrize(
    ("handler", "node", "authority", "who", "reason"),
    [
        (hang_up, None, "", "127.0.0.1", "no handshake"),
        (say_nothing, None, "", "127.0.0.1", "it took too long"),
        (hang_up, "alpha", "own", "alpha", "hung up before the link was up"),
        (say_nothing, "alpha", "own", "alpha", "it took too long"),
        (say_something, "alpha", "own", "alpha", "something else than a welcome"),
        (say_nothing, "gamma", "own", "gamma", "where alpha should be"),
        (say_nothing, "alpha", "other", "127.0.0.1", "no handshake"),
    ],
    ids=["closes", "silent", "refuses", "no welcome", "wrong welcome", "impostor", "authority"],
)
def test_the_one_dialled_must_prove_who_it_is(
    handler: Handler,
    node: str | None,
    authority: str,
    who: str,
    reason: str,
    certificates: Path,
    other_certificates: Path,
) -> None:
    async def scenario() -> None:
        folder = certificates if authority == "own" else other_certificates
        context = credentials(folder, node).contexts().server if node else None
        server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
        where = {"alpha": Address(*server.sockets[0].getsockname())}
        async with server, agent("beta", certificates, where, HASTY) as (_, witness):
            await until(lambda: len(witness.refusals) > 1)
            assert witness.refusals[0][0].startswith(who)
            assert reason in witness.refusals[0][1]
            assert witness.ups == []

    asyncio.run(scenario())


def test_a_refusal_by_the_other_end_is_no_link(
    certificates: Path, other_certificates: Path, tmp_path: Path
) -> None:
    """In TLS 1.3 the handshake of who dials is over before its certificate is looked at."""
    trusting = tmp_path / "trusting"
    trusting.mkdir()
    for name in ("beta.pem", "beta-key.pem"):
        (trusting / name).write_bytes((other_certificates / name).read_bytes())
    both = b"".join(
        (folder / "ca.pem").read_bytes() for folder in (certificates, other_certificates)
    )
    (trusting / "ca.pem").write_bytes(both)

    async def scenario() -> None:
        async with agent("alpha", certificates, SOMEWHERE) as (alpha, at_alpha):
            where = {"alpha": alpha.address}
            async with agent("beta", trusting, where) as (_, at_beta):
                await until(lambda: len(at_beta.refusals) > 2 and len(at_alpha.refusals) > 2)
                assert at_beta.refusals[0][0] == "alpha"
                assert "hung up before the link was up" in at_beta.refusals[0][1]
                assert at_alpha.ups == at_beta.ups == []

    asyncio.run(scenario())


def test_who_says_nothing_is_dropped_in_time(certificates: Path) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with agent("alpha", certificates, SOMEWHERE, HASTY) as (alpha, witness):
            began = loop.time()
            assert await heard_by_caller(alpha.address, None) == b""
            assert 0.1 < loop.time() - began < 0.2 + PATIENCE / 2
            await until(lambda: witness.refusals)
            assert "it took too long" in witness.refusals[0][1]

    asyncio.run(scenario())


def test_silent_callers_do_not_keep_others_out(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "MAX_CALLERS", 4)

    async def scenario() -> None:
        async with agent("alpha", certificates, SOMEWHERE) as (alpha, witness):
            calls = [asyncio.create_task(heard_by_caller(alpha.address, None)) for _ in range(9)]
            await until(lambda: len(witness.refusals) >= 5)
            assert all("made room" in reason for _, reason in witness.refusals)
            assert len(alpha._callers) <= 4
            async with agent("beta", certificates, {"alpha": alpha.address}) as (_, at_beta):
                await until(lambda: at_beta.ups and witness.ups)
        assert await asyncio.gather(*calls) == [b""] * 9

    asyncio.run(scenario())


def test_a_second_connection_of_the_same_neighbour_replaces_the_first(certificates: Path) -> None:
    async def scenario() -> None:
        context = client(certificates, "beta")
        async with agent("alpha", certificates, SOMEWHERE) as (alpha, witness):
            calls = [asyncio.create_task(heard_by_caller(alpha.address, context, b"1", "beta"))]
            await until(lambda: bytes(witness.heard.get("beta", b"")) == b"1")
            calls += [asyncio.create_task(heard_by_caller(alpha.address, context, b"2", "beta"))]
            await until(lambda: bytes(witness.heard.get("beta", b"")) == b"2")
            assert witness.ups == ["beta", "beta"]
            assert witness.downs == [("beta", "replaced by a new connection")]
            await calls[0]
            alpha.send("beta", b"to the second")
            alpha.drop("beta", "enough")
            assert await calls[1] == named("alpha") + b"\x01to the second"

    asyncio.run(scenario())


def several_names(folder: Path, *names: str) -> None:
    """Give an agent a certificate with several names, as its own request asks for them."""
    first, *also = names
    request(first, folder, also)
    sign_requests(folder, [folder / f"{first}.csr"], also=also, force=True)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """An authority with alpha and gamma, and one certificate for both of beta and delta."""
    init_authority(tmp_path)
    issue(tmp_path, ["alpha", "gamma"])
    several_names(tmp_path, "beta", "delta", "shop.example.org")
    return tmp_path


def test_an_agent_may_use_any_name_of_its_certificate(shared: Path) -> None:
    for suffix in (".pem", "-key.pem"):
        (shared / f"shop.example.org{suffix}").write_bytes((shared / f"beta{suffix}").read_bytes())
        (shared / f"shop.example.org{suffix}").chmod(0o600)

    async def scenario() -> None:
        shop = "shop.example.org"
        async with (
            agent("alpha", shared, {shop: SOMEWHERE["beta"]}) as (alpha, at_alpha),
            agent(shop, shared, {"alpha": alpha.address}) as (_, at_shop),
        ):
            await until(lambda: at_alpha.ups and at_shop.ups)
            assert (at_alpha.ups, at_shop.ups) == ([shop], ["alpha"])
            assert alpha.arrival_of(shop).names == {"beta", "delta", shop}

    asyncio.run(scenario())


def test_one_key_has_one_place_at_a_time(shared: Path) -> None:
    """Both ids are neighbours, and both are in the certificate: the second one has to wait."""

    async def scenario() -> None:
        context = client(shared, "beta")
        known = SOMEWHERE | {"delta": SOMEWHERE["beta"]}
        async with agent("alpha", shared, known) as (alpha, witness):
            first = asyncio.create_task(heard_by_caller(alpha.address, context, b"1", "beta"))
            await until(lambda: bytes(witness.heard.get("beta", b"")) == b"1")
            assert await heard_by_caller(alpha.address, context, b"", "delta") == named("alpha")
            await until(lambda: witness.refusals)
            assert witness.refusals == [
                ("delta", "'delta' has the key of 'beta'; give every agent a key of its own")
            ]
            assert witness.ups == ["beta"]
            alpha.drop("beta", "enough")
            await first
            await until(lambda: witness.downs)
            second = asyncio.create_task(heard_by_caller(alpha.address, context, b"2", "delta"))
            await until(lambda: bytes(witness.heard.get("delta", b"")) == b"2")
            alpha.drop("delta", "enough")
            await second

    asyncio.run(scenario())


def test_a_copy_of_the_own_key_is_refused(shared: Path) -> None:
    async def scenario() -> None:
        delta = {"delta": Address("127.0.0.1", 1)}
        async with agent("beta", shared, delta) as (beta, witness):
            context = client(shared, "beta")
            assert await heard_by_caller(beta.address, context, b"", "delta") == named("beta")
            await until(lambda: witness.refusals)
            assert witness.refusals[0][0] == "delta"
            assert "has this agent's key" in witness.refusals[0][1]

    asyncio.run(scenario())


def test_a_caller_with_a_wildcard_is_refused(tmp_path: Path) -> None:
    company = Company(tmp_path)
    company.make_root("ca")
    for name, names in (("alpha", ("alpha",)), ("beta", ("beta", "*.example.org"))):
        company.agent(name, "ca", *names)
        company.path(f"{name}.key").rename(tmp_path / f"{name}-key.pem")

    async def scenario() -> None:
        async with agent("alpha", tmp_path, SOMEWHERE) as (alpha, witness):
            assert await heard_by_caller(alpha.address, client(tmp_path, "beta")) == b""
            await until(lambda: witness.refusals)
            assert "it has a certificate with the wildcard '*.example.org'" in str(witness.refusals)

    asyncio.run(scenario())
