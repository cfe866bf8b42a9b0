"""A Kerberos realm for tests: MIT's KDC as an ordinary process, with all its files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

from tests.support.process import GuardedProcess, run

__all__ = ["REALM", "Kdc"]

REALM = "TEST.INTERNAL"
#: Debian has the programs of administrators outside the usual path.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

_KRB5_CONF = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""

_KDC_CONF = """\
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principals
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
    max_life = 1h
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
"""


class Kdc:
    """A realm with its KDC. A context manager.

    Args:
        folder: for all files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.krb5_conf = folder / "krb5.conf"
        self._process: GuardedProcess | None = None
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        names = {"realm": REALM, "port": self.port, "folder": folder}
        self.krb5_conf.write_text(_KRB5_CONF.format(**names))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**names))
        self.env = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(folder / "kdc.conf"), "PATH": _PATH}

    def __enter__(self) -> Kdc:
        self._run("kdb5_util", "create", "-s", "-P", "a master password of tests", "-r", REALM)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, program: str, *args: str) -> None:
        found = shutil.which(program, path=_PATH)
        assert found is not None, f"there is no {program}: install krb5-kdc and krb5-admin-server"
        run([found, *args], env=self.env, timeout_s=30).check()

    def start(self) -> None:
        """Start the KDC, and wait until it answers."""
        found = shutil.which("krb5kdc", path=_PATH)
        assert found is not None, "there is no krb5kdc: install krb5-kdc"
        self._process = GuardedProcess([found, "-n"], env=self.env, output=self.folder / "output.log")
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until, (self.folder / "output.log").read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """End the KDC. Its files stay, and :meth:`start` continues with them."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def signal(self, number: int) -> None:
        """Send the KDC a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.signal(number)

    def add(self, name: str) -> None:
        """Add a principal with a random key."""
        self._run("kadmin.local", "-q", f"addprinc -randkey {name}")

    def delete(self, name: str) -> None:
        """Delete a principal."""
        self._run("kadmin.local", "-q", f"delprinc -force {name}")

    def keytab(self, *names: str, new_key: bool = False) -> Path:
        """Return a new file with the keys of principals. With ``new_key`` their older files have no valid key."""
        path = self.folder / f"{names[0].replace('/', '-')}-{time.monotonic_ns()}.keytab"
        keep = "" if new_key else "-norandkey"
        for name in names:
            self._run("kadmin.local", "-q", f"ktadd {keep} -k {path} {name}")
        return path

    def cache(self, name: str, keytab: Path, *, lifetime_s: int = 3600, service: str | None = None) -> str:
        """Return a new ticket cache of a principal, as ``kinit`` makes it, with a ticket for a service or without."""
        path = f"FILE:{self.folder}/cache-{time.monotonic_ns()}"
        self._run("kinit", "-k", "-t", str(keytab), "-c", path, "-l", f"{lifetime_s}s", name)
        if service is not None:
            self._run("kvno", "-c", path, f"{service}@{REALM}")
        return path
