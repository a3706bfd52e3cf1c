"""An authority and its certificates, made, kept and renewed."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coopbandits.core import InputError
from coopbandits.fleet.identity.certs import init_authority, issue, make_key, pem, renew

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    init_authority(tmp_path, now=NOW)
    return tmp_path


def test_an_authority_signs_agents_and_no_authorities(authority: Path) -> None:
    found = load(authority / "ca.pem")
    limits = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.value == x509.BasicConstraints(ca=True, path_length=0)
    assert limits.critical
    assert found.not_valid_after_utc == NOW + timedelta(days=3650)
    found.verify_directly_issued_by(found)


def test_a_certificate_is_for_both_ends_in_one_name(authority: Path) -> None:
    written = issue(authority, ["shop-1"], now=NOW)
    assert [path.name for path in written] == ["shop-1.pem", "shop-1-key.pem"]
    found = load(authority / "shop-1.pem")
    found.verify_directly_issued_by(load(authority / "ca.pem"))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("shop-1")]
    uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {use._name for use in uses} == {"serverAuth", "clientAuth"}
    assert found.not_valid_before_utc < NOW
    assert found.not_valid_after_utc == NOW + timedelta(days=90)


def test_openssl_accepts_them_in_strict_mode(tmp_path: Path) -> None:
    init_authority(tmp_path)
    issue(tmp_path, ["a"])
    ends = []
    for protocol in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
        context = ssl.SSLContext(protocol)
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(tmp_path / "ca.pem")
        context.load_cert_chain(tmp_path / "a.pem", tmp_path / "a-key.pem")
        ends.append(context)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ends[0].wrap_bio(back, there, server_hostname="a")
    server = ends[1].wrap_bio(there, back, server_side=True)
    for end in (client, server):
        with pytest.raises(ssl.SSLWantReadError):
            end.do_handshake()
    client.do_handshake()
    server.do_handshake()
    assert server.getpeercert()


def test_keys_are_for_their_owner_alone(authority: Path) -> None:
    issue(authority, ["a", "b"], now=NOW)
    for path in authority.iterdir():
        mode = path.stat().st_mode & 0o777
        assert mode == 0o600 if path.name.endswith("-key.pem") else mode & 0o400


def test_another_folder_gets_the_authority_but_not_its_key(authority: Path) -> None:
    out = authority / "out" / "shop"
    written = issue(authority, ["a"], out, now=NOW)
    assert [path.name for path in written] == ["ca.pem", "a.pem", "a-key.pem"]
    assert sorted(path.name for path in out.iterdir()) == ["a-key.pem", "a.pem", "ca.pem"]
    assert (out / "ca.pem").read_bytes() == (authority / "ca.pem").read_bytes()
    assert issue(authority, ["b"], out, now=NOW) == [out / "b.pem", out / "b-key.pem"]


def test_nothing_is_overwritten_unless_told(authority: Path) -> None:
    issue(authority, ["a"], now=NOW)
    before = {path: path.read_bytes() for path in authority.iterdir()}
    with pytest.raises(InputError, match=r"ca\.pem.*--force"):
        init_authority(authority, now=NOW)
    with pytest.raises(InputError, match=r"a\.pem.*--force"):
        issue(authority, ["b", "a"], now=NOW)
    assert {path: path.read_bytes() for path in authority.iterdir()} == before
    issue(authority, ["a"], now=NOW, force=True)
    assert (authority / "a.pem").read_bytes() != before[authority / "a.pem"]


def test_a_folder_may_list_several_authorities(authority: Path, tmp_path: Path) -> None:
    """As during a rollover: agents must go on to trust the old one."""
    out, old = tmp_path / "out", tmp_path / "old"
    init_authority(old, now=NOW)
    issue(old, ["a"], out, now=NOW)
    both = b"".join((folder / "ca.pem").read_bytes() for folder in (old, authority))
    (out / "ca.pem").write_bytes(both)
    assert issue(authority, ["a"], out, now=NOW, force=True) == [out / "a.pem", out / "a-key.pem"]
    assert (out / "ca.pem").read_bytes() == both
    load(out / "a.pem").verify_directly_issued_by(load(authority / "ca.pem"))


def test_another_authority_in_the_folder_is_not_replaced(authority: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    init_authority(other, now=NOW)
    with pytest.raises(InputError, match=r"ca\.pem exists"):
        issue(authority, ["a"], other, now=NOW)
    assert not (other / "a.pem").exists()


@pytest.mark.parametrize("node", ["", "Shop", "-a", "a-", "a..b", "*.b", "a" * 64, "a\n", "../a"])
def test_an_id_is_a_dns_name(authority: Path, node: str) -> None:
    with pytest.raises(InputError, match=re.escape(repr(node))):
        issue(authority, ["good", node], now=NOW)
    assert not (authority / "good.pem").exists()


@pytest.mark.parametrize("node", ["ca", "ca-key", "a-key"])
def test_ids_that_would_mix_up_files_are_refused(authority: Path, node: str) -> None:
    with pytest.raises(InputError, match=rf"\b{node}\b"):
        issue(authority, [node], now=NOW)


def test_renewal_replaces_what_expires_soon_and_keeps_keys(authority: Path) -> None:
    issue(authority, ["old"], now=NOW, days=40)
    issue(authority, ["new"], now=NOW, days=90)
    key = (authority / "old-key.pem").read_bytes()
    later = NOW + timedelta(days=20)
    assert renew(authority, now=later) == [authority / "old.pem"]
    renewed = load(authority / "old.pem")
    assert renewed.not_valid_after_utc == later + timedelta(days=90)
    assert (authority / "old-key.pem").read_bytes() == key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "old.pem", authority / "old-key.pem")
    assert renew(authority, now=later) == []
    everything = renew(authority, now=later, everything=True)
    assert everything == [authority / "new.pem", authority / "old.pem"]


def test_renewal_leaves_other_authorities_alone(authority: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    init_authority(other, now=NOW)
    issue(other, ["a"], now=NOW)
    (tmp_path / "a.pem").write_bytes((other / "a.pem").read_bytes())
    with pytest.raises(InputError, match="no certificate"):
        renew(authority, now=NOW, everything=True)


def test_renewal_goes_by_the_name_inside(authority: Path) -> None:
    """Or whoever may name files could become anybody."""
    issue(authority, ["a"], now=NOW)
    (authority / "a.pem").rename(authority / "b.pem")
    renew(authority, now=NOW, everything=True)
    names = load(authority / "b.pem").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert list(names.value) == [x509.DNSName("a")]


def made_by_hand(folder: Path, file: str, *names: x509.GeneralName) -> bytes:
    """A certificate of an authority as openssl makes it; return what is in its file."""
    key = load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
    builder = x509.CertificateBuilder(
        load(folder / "ca.pem").subject,
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "client")]),
        make_key().public_key(),
        x509.random_serial_number(),
        NOW,
        NOW + timedelta(days=5),
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    content = pem(builder.sign(key, hashes.SHA256()))  # type: ignore[arg-type]
    (folder / file).write_bytes(content)
    return content


def test_renewal_leaves_certificates_alone_that_are_no_agents(authority: Path) -> None:
    """A renewed one would have other names and uses than the one that was made by hand."""
    issue(authority, ["a", "z"], now=NOW, days=10)
    address = x509.IPAddress(IPv4Address("10.0.0.1"))
    others: dict[str, list[x509.GeneralName]] = {
        "client.pem": [],
        "empty.pem": [address],
        "more.pem": [x509.DNSName("b"), address],
        "two.pem": [x509.DNSName("b"), x509.DNSName("c")],
        "web.pem": [x509.DNSName("www." + "long." * 12 + "example.org")],
    }
    before = {file: made_by_hand(authority, file, *names) for file, names in others.items()}
    assert renew(authority, now=NOW) == [authority / "a.pem", authority / "z.pem"]
    assert {file: (authority / file).read_bytes() for file in others} == before


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_renewed(authority: Path) -> None:
    issue(authority, ["a", "z"], now=NOW, days=10)
    (authority / "empty.pem").touch()
    (authority / "folder.pem").mkdir()
    with pytest.raises(InputError) as caught:
        renew(authority, now=NOW)
    skipped, renewed = str(caught.value).split("renewed: ")
    assert f"{authority}/empty.pem" in skipped
    assert re.search(rf"{authority}/folder\.pem.*Is a directory", skipped)
    assert f"{authority}/a.pem, {authority}/z.pem" in renewed
    for node in ("a", "z"):
        assert load(authority / f"{node}.pem").not_valid_after_utc == NOW + timedelta(days=90)
    with pytest.raises(InputError, match="renewed: nothing"):
        renew(authority, now=NOW)


def test_renewal_goes_through_links(authority: Path) -> None:
    issue(authority, ["a"], now=NOW, days=10)
    (authority / "kept").mkdir()
    target = (authority / "a.pem").rename(authority / "kept" / "real.pem")
    (authority / "a.pem").symlink_to(Path("kept", "real.pem"))
    assert renew(authority, now=NOW) == [authority / "a.pem"]
    assert (authority / "a.pem").is_symlink()
    assert load(target).not_valid_after_utc == NOW + timedelta(days=90)


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    init_authority(tmp_path, now=NOW, days=10)
    issue(tmp_path, ["a"], now=NOW)
    assert load(tmp_path / "a.pem").not_valid_after_utc == NOW + timedelta(days=10)
    with pytest.raises(InputError, match="2031-05-11"):
        issue(tmp_path, ["b"], now=NOW + timedelta(days=11))


@pytest.mark.parametrize("days", [0, -1, 40_000, 1.5])
def test_days_are_a_whole_number(tmp_path: Path, days: int) -> None:
    with pytest.raises(InputError, match="1 to 36500"):
        init_authority(tmp_path, days=days)


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_an_authority_has_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="1 to 64"):
        init_authority(tmp_path, name=name)


def test_a_broken_authority_is_one_sentence(authority: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="coopbandits certs init"):
        issue(tmp_path / "nowhere", ["a"])
    other = tmp_path / "other"
    init_authority(other, now=NOW)
    (other / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    with pytest.raises(InputError, match=r"ca-key.*ca\.pem"):
        issue(other, ["a"], now=NOW)
    (other / "ca-key.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"ca-key\.pem"):
        issue(other, ["a"], now=NOW)
    (other / "ca.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"ca\.pem"):
        issue(other, ["a"], now=NOW)


def test_a_folder_that_cannot_be_written_is_one_sentence(authority: Path) -> None:
    (authority / "file").write_text("")
    with pytest.raises(InputError, match="file/out"):
        issue(authority, ["a"], authority / "file" / "out", now=NOW)
