"""A company's certificate authority, with the `openssl` command line: a root, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

CA = "basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign,cRLSign\n"
"""Extensions of an intermediate."""

AGENT = "extendedKeyUsage=serverAuth,clientAuth\nkeyUsage=critical,digitalSignature\n"
"""Extensions of an agent's certificate, besides its names."""


def openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()


class Company:
    """Files of authorities and certificates in a folder: NAME.pem, NAME.key, NAME.csr.

    Parameters
    ----------
    folder : Path
        Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def path(self, file: str) -> Path:
        return self.folder / file

    def make_root(self, name: str = "root", *options: str) -> Path:
        """Make a root with an RSA key."""
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650",
            "-subj", f"/O=Company/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"), *options,
        )  # fmt: skip
        return self.path(f"{name}.pem")

    def sign(self, name: str, issuer: str, extensions: str, *options: str) -> Path:
        """Make a key on P-256, and have an authority certify it; a key that exists stays."""
        self.path(f"{name}.ext").write_text(
            f"{extensions}subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        key = self.path(f"{name}.key")
        if not key.exists():
            openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
            key.chmod(0o600)
        request = self.path(f"{name}.csr")
        openssl("req", "-new", "-key", key, "-subj", f"/O=Company/CN={name}", "-out", request)
        openssl(
            "x509", "-req", "-in", request, "-CAcreateserial",
            "-CA", self.path(f"{issuer}.pem"), "-CAkey", self.path(f"{issuer}.key"),
            "-extfile", self.path(f"{name}.ext"), "-out", self.path(f"{name}.pem"),
            *(options or ("-days", "200")),
        )  # fmt: skip
        return self.path(f"{name}.pem")

    def agent(self, file: str, issuer: str, *names: str, extensions: str = AGENT) -> Path:
        """Make a certificate with some DNS names."""
        listed = ",".join(f"DNS:{name}" for name in names)
        return self.sign(file, issuer, f"subjectAltName={listed}\n{extensions}")

    def chain(self, file: str, *parts: str) -> Path:
        """Write a file of several certificates."""
        content = b"".join(self.path(f"{part}.pem").read_bytes() for part in parts)
        self.path(f"{file}.pem").write_bytes(content)
        return self.path(f"{file}.pem")
