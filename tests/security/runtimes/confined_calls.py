"""Tool calls inside the walls of the process runtime, as root or as a plain user, on emulated older kernels.

The confined program is not a whole agent: it speaks to the launcher of tool calls with the launcher's own
messages, so that it runs on the system's Python, which another user can execute.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import choir_agent
import choir_common
from choir_common.confinement import landlock
from choir_common.confinement.kernel import Kernel
from choir_common.confinement.users import own_user

PYTHON = "/usr/bin/python3"
NOBODY = 65534
IS_ROOT = os.geteuid() == 0
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/proc", "/etc/ld.so.cache")
CONFINEMENT = Path("choir_common", "confinement")
LAUNCHER = Path("choir_agent", "call_launcher", "script.py")

AGENT = """
import json, os, select, socket, sys
sys.path.insert(0, {package!r})
from choir_agent.call_launcher.messages import CallReply, CallRequest
launcher = socket.socket(fileno=int(os.environ['CHOIR_CALL_LAUNCHER']))
missing = json.loads(launcher.makefile().readline())
def start(script, environment=(), offline=False, **disk):
    ours, theirs = socket.socketpair()
    socket.send_fds(launcher, [b'0' if offline else b'1'], [theirs.fileno()])
    theirs.close()
    reader, writer = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    message = CallRequest(argv=[{python!r}, '-I', '-c', script], environment=dict(environment),
                          cwd=os.getcwd(), offline=offline, readable=[], **disk).encode()
    socket.send_fds(ours, [message[:4]], [nothing, writer, writer])
    ours.sendall(message[4:])
    os.close(writer)
    return ours, os.fdopen(reader)
def end(call):
    text = call[1].read()
    return text, CallReply.decode(call[0].makefile('rb').read())
"""


@dataclass(frozen=True)
class Host:
    """A kernel and a user, real or emulated."""

    abi: int
    """Newest version of Landlock to be used; 0 for none."""
    root: bool
    """Whether root starts the program, which with a view then gets a user of its own."""
    view: bool = True
    """Whether there are mount and PID namespaces."""

    def user_prefix(self) -> list[str]:
        """Return the words that run a command as the host's user."""
        if self.root or os.geteuid() != 0:
            return []
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def __str__(self) -> str:
        user = "root" if self.root else "plain user"
        return f"{user}, Landlock {self.abi}{'' if self.view else ', no namespaces'}"


OWN_HOST = Host(7, root=IS_ROOT)
"""A current kernel, and the user who runs the tests."""


def run_confined(host: Host, code: str, *limits: str, options: Sequence[str] = ()) -> Any:
    """Run `code` in an agent's place on a host; return what it printed as JSON."""
    # not pytest's directory, which other users cannot enter
    with tempfile.TemporaryDirectory(prefix="choir-calls-", ignore_cleanup_errors=True) as name:
        words = [word for limit in limits for word in ("--call-limit", limit)]
        return _run_at(Path(name).resolve(), host, code, [*words, *options])


def _run_at(place: Path, host: Host, code: str, more: Sequence[str]) -> Any:
    package, workspace, view = place / "package", place / "workspace", place / "view"
    shutil.copytree(Path(choir_agent.__file__).parent / "call_launcher", package / LAUNCHER.parent)
    (package / "choir_agent" / "__init__.py").touch()
    copy_confinement(package)
    workspace.mkdir()
    view.mkdir()
    place.chmod(0o711)
    if not host.root and os.geteuid() == 0:
        for directory in (workspace, view):
            os.chown(directory, NOBODY, NOBODY)
    reads = [word for path in (*SYSTEM, package) for word in ("--read", str(path))]
    options = ["--view", str(view)] if host.view else []
    if host.view and host.root:
        options += ["--user", str(own_user(place, "agent main")), "--owned", str(workspace)]
    program = AGENT.format(package=str(package), python=PYTHON) + code
    words = [
        *(PYTHON, "-I", "-S", str(package / CONFINEMENT / "script.py"), *options, *reads),
        *("--write", str(workspace), "--device", "/dev/null", "--chdir", str(workspace)),
        *("--launcher", str(package / LAUNCHER), "--newest-abi", str(host.abi)),
        *more,
    ]
    done = subprocess.run(
        [
            *host.user_prefix(),
            *words,
            "--parent",
            str(os.getpid()),
            "--",
            PYTHON,
            "-I",
            "-c",
            program,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def copy_confinement(package: Path) -> None:
    """Copy the code of the confinement to where every user can execute it."""
    common = Path(choir_common.__file__).parent
    shutil.copytree(common / "confinement", package / CONFINEMENT)
    (package / "choir_common" / "__init__.py").touch()


def newest_landlock() -> int:
    """Return the version of Landlock that this kernel has, or 0."""
    return landlock.supported_abi(Kernel(), sys.maxsize)


def unsupported(host: Host) -> str:
    """Return why a host cannot be emulated here, or an empty string."""
    newest = newest_landlock()
    if sys.platform != "linux" or newest < host.abi:
        return f"LOUD: this kernel has Landlock {newest}, not {host.abi}"
    if not Path(PYTHON).exists():
        return f"NO {PYTHON}: another user cannot run this Python here"
    if os.geteuid() != 0 and host.root:
        return "this run is not root's"
    return ""
