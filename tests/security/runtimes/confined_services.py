"""Programs that replace a confined service, as root or as a plain user, on emulated older kernels."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choir_common.confinement.users import own_user
from tests.security.runtimes.confined_calls import (
    CONFINEMENT,
    NOBODY,
    PYTHON,
    SYSTEM,
    Host,
    copy_confinement,
)

SECRET = "crown jewels"
SECRETS = ("secrets.json", "audit-keys.json", "data/postgres/rows", "workspaces/main/diary")
PRELUDE = """
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
home = os.environ['CHOIR_HOME']
missing = json.loads(os.environ['CHOIR_MISSING_WALLS'])
"""


@dataclass(frozen=True)
class ServicePlace:
    """A state directory with secrets, and with control's socket, which accepts connections."""

    home: Path
    host: Host

    def run(self, code: str, *arguments: object, stdin: str = "") -> Any:
        """Run `code` instead of the browser service; return what it printed as JSON."""
        with self.start(code, *arguments) as service:
            stdout, stderr = service.communicate(stdin, timeout=60)
        assert service.returncode == 0, stdout + stderr
        return json.loads(stdout)

    def start(self, code: str, *arguments: object) -> subprocess.Popen[str]:
        """Start `code` instead of the browser service."""
        return subprocess.Popen(
            [*self.host.user_prefix(), *self._words(), PRELUDE + code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "CHOIR_HOME": str(self.home)},
        )

    def _words(self) -> list[str]:
        home, host = self.home, self.host
        package = home.parent / "package"
        write = [home / "run" / "browser", home / "socks" / "browser"]
        pairs = [("--service", "browser"), ("--chdir", write[0]), ("--newest-abi", host.abi)]
        pairs += [("--read", path) for path in (*SYSTEM, package)]
        pairs += [("--write", path) for path in write]
        pairs.append(("--device", "/dev/null"))
        # A view that cannot be made, as where namespaces are forbidden.
        pairs.append(("--view", home / "run" / ("view" if host.view else "none")))
        if host.root:
            pairs.append(("--user", own_user(home, "browser")))
            pairs += [("--owned", path) for path in write]
        options = [str(word) for pair in pairs for word in pair]
        script = package / CONFINEMENT / "script.py"
        return [PYTHON, "-I", "-S", str(script), *options, "--", PYTHON, "-I", "-c"]


@contextmanager
def service_place(host: Host) -> Iterator[ServicePlace]:
    """Make a state directory that belongs to the host's user."""
    with tempfile.TemporaryDirectory(prefix="choir-svc-", ignore_cleanup_errors=True) as name:
        base = Path(name).resolve()
        base.chmod(0o755)
        copy_confinement(base / "package")
        home = base / "home"
        for directory in ("run/browser", "run/view", "socks/browser"):
            (home / directory).mkdir(parents=True)
        for secret in SECRETS:
            (home / secret).parent.mkdir(parents=True, exist_ok=True)
            (home / secret).write_text(SECRET)
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(str(home / "socks" / "choird.sock"))
            control.listen()
            if not host.root and os.geteuid() == 0:
                for path in (home, *home.rglob("*")):
                    shutil.chown(path, NOBODY, NOBODY)
            home.chmod(0o700)
            yield ServicePlace(home, host)
