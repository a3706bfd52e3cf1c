"""Certificates of a company: intermediates, several names, and paths that must not hold."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.chains import find_path, holder_of, read_certificates
from coopbandits.fleet.identity.notary import MAX_CERTIFICATE, MAX_KEPT_INTERMEDIATES, Notary
from coopbandits.fleet.identity.tls import Credentials

from .company import AGENT, CA, Company

SCOPE = "test", 7
NAMES = "shop-1.example.org", "shop-1", "SHOP.Example.org"


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Company:
    """A root, an intermediate that issues, and agents of it."""
    made = Company(tmp_path_factory.mktemp("company"))
    made.make_root()
    made.sign("issuing", "root", CA.replace("CA:true", "CA:true,pathlen:0"))
    made.agent("one", "issuing", *NAMES)
    made.agent("two", "issuing", "shop-2.example.org", "shop-2")
    for name in ("one", "two"):
        made.chain(f"{name}-chain", name, "issuing")
    return made


def files(company: Company, name: str, ca: str = "root") -> tuple[Path, Path, Path]:
    return company.path(f"{ca}.pem"), company.path(f"{name}-chain.pem"), company.path(f"{name}.key")


@pytest.mark.parametrize("node", ["shop-1.example.org", "shop-1", "shop.example.org"])
def test_the_id_is_any_of_the_names_in_lower_case(company: Company, node: str) -> None:
    found = Credentials(node, *files(company, "one"))
    assert found.holder.names == {name.lower() for name in NAMES}
    assert Notary(node, files(company, "one"), SCOPE, 4).authors


def test_another_id_is_rejected_with_the_names_there_are(company: Company) -> None:
    with pytest.raises(InputError, match=r"shop\.example\.org.*but this agent is shop-2"):
        Credentials("shop-2", *files(company, "one"))


def test_entries_are_proven_through_intermediates(company: Company) -> None:
    author = Notary("shop-1", files(company, "one"), SCOPE, 4)
    proof, own = author.sign(b"entry"), author.authors[author.fingerprint]
    assert len(own.intermediates) == 1
    narrow = Notary("shop-1", files(company, "one", "issuing"), SCOPE, 4)
    assert narrow.authors[narrow.fingerprint].intermediates == own.intermediates
    # Its file has an intermediate of its own, or the CA file lists the same one.
    for reader in (
        Notary("shop-2", files(company, "two"), SCOPE, 4),
        Notary("shop-2", files(company, "two", "issuing"), SCOPE, 4),
    ):
        for each in (*own.intermediates, own.certificate):
            reader.learn(each)
        assert reader.holds(b"entry", proof)
    other = Company(company.folder / "direct")
    company.chain("direct/root", "root")
    (other.path("root.key")).write_bytes(company.path("root.key").read_bytes())
    other.agent("three", "root", "shop-3")
    other.chain("three-chain", "three")
    reader = Notary("shop-3", files(other, "three"), SCOPE, 4)
    with pytest.raises(InputError, match="no path"):
        reader.learn(own.certificate)
    for each in (*own.intermediates, own.certificate):
        reader.learn(each)
    assert reader.holds(b"entry", proof)


def test_an_intermediate_may_be_trusted_instead_of_the_root(company: Company) -> None:
    """So not every certificate of the company opens the fleet."""
    Credentials("shop-1", *files(company, "one", "issuing"))
    company.agent("visitor", "root", "shop-1")
    company.chain("visitor-chain", "visitor")
    for check in (
        lambda: Credentials("shop-1", *files(company, "visitor", "issuing")),
        lambda: Notary("shop-1", files(company, "visitor", "issuing"), SCOPE, 4),
    ):
        with pytest.raises(InputError, match=r"authority|issuer"):
            check()


def test_the_first_to_expire_of_a_path_counts(company: Company) -> None:
    soon = Company(company.folder / "soon")
    soon.make_root()
    soon.sign("brief", "root", CA, "-days", "3")
    soon.agent("one", "brief", "shop-1")
    soon.chain("one-chain", "one", "brief")
    left = Credentials("shop-1", *files(soon, "one")).expires - datetime.now(UTC).timestamp()
    assert 2.9 * 86400 < left < 3.1 * 86400


def bad_paths(company: Company) -> dict[str, tuple[str, ...]]:
    """Make certificates that must not be believed; return the parts of each file."""
    company.sign("no-authority", "root", AGENT)
    company.agent("by-agent", "no-authority", "shop-1")
    company.sign("deeper", "issuing", CA)  # below a path length of 0
    company.agent("too-deep", "deeper", "shop-1")
    limited = f"{CA}nameConstraints=critical,permitted;DNS:other.example.org\n"
    company.sign("limited", "root", limited)
    company.agent("out-of-bounds", "limited", "shop-1.example.org", "shop-1")
    company.sign("no-signing", "root", CA.replace("keyCertSign,", ""))
    company.agent("misused", "no-signing", "shop-1")
    company.agent("server-only", "issuing", "shop-1", extensions="extendedKeyUsage=serverAuth\n")
    company.make_root("foreign")
    company.agent("stranger", "foreign", "shop-1")
    return {
        "by-agent": ("by-agent", "no-authority"),
        "too-deep": ("too-deep", "deeper", "issuing"),
        "out-of-bounds": ("out-of-bounds", "limited"),
        "misused": ("misused", "no-signing"),
        "server-only": ("server-only", "issuing"),
        "stranger": ("stranger", "foreign"),
    }


def test_paths_that_break_a_rule_prove_nothing_on_links_and_in_entries(company: Company) -> None:
    trusted = read_certificates(company.path("root.pem"))
    for name, parts in bad_paths(company).items():
        company.chain(f"{name}-chain", *parts)
        with pytest.raises(InputError):
            Credentials("shop-1", *files(company, name))
        own, *intermediates = read_certificates(company.path(f"{name}-chain.pem"))
        with pytest.raises(InputError, match="has not signed"):
            find_path(own, intermediates, trusted)
        reader = Notary("shop-2", files(company, "two"), SCOPE, 4)
        for each in reversed(intermediates):
            with suppress(InputError):  # some of them are signed, and may sign nothing
                reader.learn(der(each))
        with pytest.raises(InputError):
            reader.learn(der(own))
        assert len(reader.authors) == 1, name


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("shop-1.example.org", "*.example.org"), "wildcard"),
        (("under_score", "shop-1."), "0 DNS names"),
        (tuple(f"shop-{at}" for at in range(65)), "65 DNS names"),
    ],
)
def test_names_that_are_no_ids(company: Company, names: tuple[str, ...], sentence: str) -> None:
    file = sentence.replace(" ", "-")
    company.agent(file, "issuing", *names)
    company.chain(f"{file}-chain", file, "issuing")
    (found,) = read_certificates(company.path(f"{file}.pem"))
    with pytest.raises(InputError, match=re.escape(sentence)):
        holder_of(found)
    for check in (Credentials, lambda node, *three: Notary(node, three, SCOPE, 4)):
        with pytest.raises(InputError, match=re.escape(sentence)):
            check("shop-1.example.org", *files(company, file))


def test_a_certificate_that_is_too_long_to_be_sent_is_rejected_by_its_owner(
    company: Company,
) -> None:
    """Others would read none of its entries and announcements, and it would not know why."""
    company.agent("long", "issuing", "shop-1", *(f"{'x' * 60}-{at}" for at in range(62)))
    company.chain("long-chain", "long", "issuing")
    with pytest.raises(InputError, match=f"up to {MAX_CERTIFICATE} are accepted"):
        Notary("shop-1", files(company, "long"), SCOPE, 4)


def test_few_intermediates_are_kept(company: Company) -> None:
    """Those that no author needs make room; the others stay, however many come."""
    reader = Notary("shop-2", files(company, "two"), SCOPE, 4)
    for at in range(MAX_KEPT_INTERMEDIATES + 4):
        made = read_certificates(company.sign("many", "root", CA, "-days", str(at + 5)))
        assert reader.knows(reader.learn(der(made[0])))
    assert len(reader._intermediates) <= MAX_KEPT_INTERMEDIATES
    author = Notary("shop-1", files(company, "one"), SCOPE, 4)
    assert reader.knows(reader.learn(author.authors[author.fingerprint].certificate))


def test_an_authority_that_is_removed_is_not_believed_any_more(
    company: Company, tmp_path: Path
) -> None:
    """And the one that is added is, without a restart."""
    new = Company(company.folder / "new")
    new.make_root()
    new.agent("two", "root", "shop-2")
    new.chain("two-chain", "two")
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    ca.write_bytes(b"".join(each.path("root.pem").read_bytes() for each in (company, new)))
    own.write_bytes(company.path("two-chain.pem").read_bytes())
    key = tmp_path / "key.pem"
    key.write_bytes(company.path("two.key").read_bytes())
    reader = Notary("shop-2", (ca, own, key), SCOPE, 4)
    author = Notary("shop-1", files(company, "one"), SCOPE, 4)
    proof, shown = author.sign(b"entry"), author.authors[author.fingerprint]
    for each in (*shown.intermediates, shown.certificate):
        reader.learn(each)
    assert reader.author(proof) is not None
    ca.write_bytes(new.path("root.pem").read_bytes())
    reader.refresh()
    assert reader.author(proof) is not None, "the own certificate would not hold: nothing changes"
    own.write_bytes(new.path("two-chain.pem").read_bytes())
    key.write_bytes(new.path("two.key").read_bytes())
    reader.refresh()
    assert reader.author(proof) is None
    with pytest.raises(InputError, match="has not signed"):
        reader.learn(shown.certificate)


def test_an_agent_may_have_the_name_of_its_authority(tmp_path: Path) -> None:
    init_authority(tmp_path, name="shop")
    issue(tmp_path, ["shop"])
    three = tmp_path / "ca.pem", tmp_path / "shop.pem", tmp_path / "shop-key.pem"
    author = Notary("shop", three, SCOPE, 4)
    assert author.holds(b"entry", author.sign(b"entry"))
    assert author.authors[author.fingerprint].intermediates == ()


def test_a_certificate_without_names_proves_nothing(company: Company) -> None:
    company.sign("nameless", "issuing", AGENT)
    company.chain("nameless-chain", "nameless", "issuing")
    with pytest.raises(InputError, match="is a certificate"):
        Credentials("nameless", *files(company, "nameless"))
    (found,) = read_certificates(company.path("nameless.pem"))
    reader = Notary("shop-2", files(company, "two"), SCOPE, 4)
    for content in (der(found), der(found)[:-9], b"", b"0\x82\xff\xff"):
        with pytest.raises(InputError, match="a certificate"):
            reader.learn(content)
    assert len(reader.authors) == 1
