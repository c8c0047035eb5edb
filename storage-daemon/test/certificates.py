# SPDX-License-Identifier: Apache-2.0
"""Certificates of a grid, made at test time: an authority, a host, a user and the user's proxy."""

import shutil
import subprocess
from pathlib import Path

DAYS = "2"


class Certificates:
    """Files of one folder. Those of the host belong to `xrootd`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        self.folder = folder
        self.authorities = folder / "authorities"
        self.authorities.mkdir(mode=0o755)
        # XRootD takes no proxy of a certificate that does not say what its key is for.
        self._file("ca.ext", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n")
        self._file("any.ext", "keyUsage=critical,digitalSignature,keyEncipherment\nsubjectAltName=IP:127.0.0.1\n")
        self._make("ca", "/O=Test/CN=Authority", "ca.ext")
        for name in ("host", "user"):
            self._make(name, f"/O=Test/CN={name}", "any.ext", "-CA", "ca.pem", "-CAkey", "ca.key")
        shutil.copy(folder / "ca.pem", self.authorities / f"{self._hash('ca.pem')}.0")
        self.proxy = folder / "proxy.pem"
        # It takes names of files from the folder that PWD names.
        self._run("xrdgsiproxy", "init", "-cert", f"{folder}/user.pem", "-key", f"{folder}/user.key",
                  "-out", str(self.proxy), "-certdir", str(self.authorities), "-bits", "2048")  # fmt: skip
        for name in ("host.pem", "host.key"):
            shutil.chown(folder / name, "xrootd", "xrootd")

    @property
    def directives(self) -> dict[str, str]:
        """For Server.write_config(): clients are known by their certificates."""
        files = f"-certdir:{self.authorities} -cert:{self.folder}/host.pem -key:{self.folder}/host.key"
        return {
            "sec.protocol": f"sec.protocol gsi {files} -crl:0 -gmapopt:10",
            "sec.protbind": "sec.protbind * only gsi",
            "ofs.authorize": "# everybody may",
        }

    @property
    def client_env(self) -> dict[str, str]:
        return {
            "XrdSecPROTOCOL": "gsi",
            "X509_CERT_DIR": str(self.authorities),
            "X509_USER_PROXY": str(self.proxy),
            "XrdSecGSISRVNAMES": "*",
        }

    def _file(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def _make(self, name: str, subject: str, extensions: str, *signer: str) -> None:
        request = f"{name}.csr"
        self._run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", f"{name}.key",
                  "-out", request)  # fmt: skip
        own = signer or ("-signkey", f"{name}.key")
        self._run("openssl", "x509", "-req", "-in", request, *own, "-extfile", extensions, "-days", DAYS,
                  "-out", f"{name}.pem")  # fmt: skip
        (self.folder / f"{name}.key").chmod(0o400)

    def _hash(self, name: str) -> str:
        return self._run("openssl", "x509", "-in", name, "-noout", "-hash").strip()

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout
