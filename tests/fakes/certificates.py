"""Throw-away certificates, made by the openssl command: a CA, a server on 127.0.0.1, and a client."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files (PEM) in one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def cert(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"


def make_certificates(folder: Path) -> Certificates:
    """A CA and certificates `server` (for 127.0.0.1) and `client` signed by it, valid for a day."""
    made = Certificates(folder)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(
        "req", "-x509", *curve, "-keyout", folder / "ca.key", "-out", made.ca, "-days", "1", "-subj", "/CN=test CA",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    for name, usage, alternative in (
        ("server", "serverAuth", "subjectAltName=IP:127.0.0.1"),
        ("client", "clientAuth", "subjectAltName=DNS:acceptd"),
    ):
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        extensions.write_text(
            f"{alternative}\nextendedKeyUsage={usage}\nauthorityKeyIdentifier=keyid\n"
            "basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n"
        )
        _openssl("req", *curve, "-keyout", made.key(name), "-out", request, "-subj", f"/CN={name}")
        _openssl(
            "x509", "-req", "-in", request, "-CA", made.ca, "-CAkey", folder / "ca.key", "-CAcreateserial", "-days",
            "1", "-out", made.cert(name), "-extfile", extensions,
        )  # fmt: skip
    return made


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
