"""Shallow clone of a stranger's git repository: nothing of it runs, and time and size have limits."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _

TIMEOUT_S = 60.0
MAX_CLONE_BYTES = 200 << 20
MAX_CLONE_FILES = 20_000
MAX_GIT_FILE_BLOCKS = 200_000
"""Of 512 bytes: no file of a clone, which are also git's own, gets larger."""
CHECK_S = 0.1
PROTOCOLS = ("https", "ssh")
SSH_OPTIONS = "-o BatchMode=yes -o ForwardAgent=no -o ClearAllForwardings=yes"
"""Added to the user's own ssh command, which may name a key or a jump host."""
# git itself also refuses hosts that begin with a hyphen.
_ADDRESS = re.compile(
    r"(https|ssh)://[A-Za-z0-9\[]\S*|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][\w.-]*:[^\s-]\S*"
)
_HANDED_ON = ("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO")


def is_git_address(source: str) -> bool:
    """Return whether it is an address for https or ssh; `file://` and remote helpers are none."""
    return _ADDRESS.fullmatch(source) is not None and "::" not in source


@contextmanager
def cloned_repository(address: str, protocols: Collection[str] = PROTOCOLS) -> Iterator[Path]:
    """Clone into a temporary folder, which is removed at the end. Blocks.

    `protocols`: those that git may use, also after a redirect. Raises Unavailable if git fails or takes too
    long, and InvalidRequest for a repository that is too large.
    """
    # Without hooks, filters, submodules and remote helpers, and without the user's own settings.
    settings = {
        "core.hooksPath": "/dev/null",
        "core.symlinks": "true",
        # Larger contents are streamed, not loaded.
        "core.bigFileThreshold": "1m",
        "submodule.recurse": "false",
        "protocol.allow": "never",
        **{f"protocol.{name}.allow": "always" for name in protocols},
    }
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--template=")
    limited = (
        "sh",
        "-c",
        f'ulimit -f {MAX_GIT_FILE_BLOCKS} && exec git "$@"',
        "git",
    )
    with tempfile.TemporaryDirectory(prefix="choir-skill-") as place:
        top = Path(place)
        _run(
            [*limited, *words, "clone", *options, "--", address, "r"],
            top,
            _environment(address, top),
        )
        yield top / "r"


def _environment(address: str, place: Path) -> dict[str, str]:
    # ssh needs the user's keys. With https, a password of ~/.netrc must not go out without a word.
    home = place if address.startswith("https://") else Path.home()
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_SSH_COMMAND": f"{os.environ.get('GIT_SSH_COMMAND', 'ssh')} {SSH_OPTIONS}",
        **{name: os.environ[name] for name in (*_HANDED_ON, *_proxies()) if name in os.environ},
    }


def _proxies() -> tuple[str, ...]:
    return ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY")


def _run(command: list[str], place: Path, environment: Mapping[str, str]) -> None:
    address, until = command[-2], time.monotonic() + TIMEOUT_S
    errors = place / "errors"
    with errors.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(
                _("git cannot be started: {error}.").format(error=error.strerror)
            ) from None
        try:
            while process.poll() is None:
                _check_size(place)
                if time.monotonic() > until:
                    raise Unavailable(
                        _("git did not clone {address} in {seconds:g} s.").format(
                            address=address, seconds=TIMEOUT_S
                        )
                    )
                time.sleep(CHECK_S)
        finally:
            if process.poll() is None:
                # git, and what it started, such as ssh
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode != 0:
        text = errors.read_bytes()[-2_000:].decode("utf-8", "replace").strip()
        reason = escape_hidden(text)[-300:] or _("exit code {returncode}").format(
            returncode=process.returncode
        )
        raise Unavailable(
            _("git cannot clone {address}: {reason}.").format(address=address, reason=reason)
        )


def _check_size(place: Path) -> None:
    """Raise InvalidRequest when the clone is too large; counts no further than its limits."""
    files = size = 0
    for folder, _folders, names in os.walk(place):
        for name in names:
            files += 1
            try:
                size += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - many files
            except OSError:
                continue  # git has just renamed it
            if files > MAX_CLONE_FILES or size > MAX_CLONE_BYTES:
                raise InvalidRequest(
                    _(
                        "The repository has more than {max_clone_files} files or {max_clone_bytes} MiB; "
                        "clone it yourself and add the folder."
                    ).format(max_clone_files=MAX_CLONE_FILES, max_clone_bytes=MAX_CLONE_BYTES >> 20)
                )
