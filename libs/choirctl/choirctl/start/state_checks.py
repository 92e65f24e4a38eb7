"""Checks of the state directory and of what it needs: sockets, the port, files and space on disk."""

import os
import shutil
import stat

from choir_common.errors import StartupError
from choir_common.i18n import _, ngettext
from choir_common.secret_reader import read_secrets
from choir_local.sockets import check_port_free
from choirctl.start.background import is_running
from choirctl.start.config_file import read_config
from choirctl.start.health import CheckResult, Installation
from choirctl.start.state_directory import check_path_length

DISK_REQUIRED_BYTES = (
    300_000_000  # bytes: a new Postgres cluster with its write-ahead log, and some logs
)
DISK_RECOMMENDED_BYTES = 2_000_000_000


async def check_socket_path(installation: Installation) -> CheckResult:
    check_path_length(installation.home.root)
    return "ok", _("sockets fit below {root}").format(root=installation.home.root)


async def check_port(installation: Installation) -> CheckResult:
    port = installation.settings.http_port
    if is_running(installation.home):
        return "ok", _("in use by the Choir that runs here")
    check_port_free("127.0.0.1", port, _("CHOIR_HTTP_PORT or `choirctl up --port`"))
    return "ok", _("127.0.0.1:{port} is free").format(port=port)


async def check_home(installation: Installation) -> CheckResult:
    root = installation.home.root
    if not root.exists():
        return "ok", _("{root} does not exist yet; `choirctl up` makes it").format(root=root)
    mode = stat.S_IMODE(root.stat().st_mode)
    if not os.access(root, os.W_OK | os.X_OK):
        return (
            "fail",
            _("{root} cannot be written by user {geteuid}. Choose another, or chown it.").format(
                root=root, geteuid=os.geteuid()
            ),
        )
    if root.stat().st_uid != os.geteuid():
        return (
            "warn",
            _("{root} belongs to user {st_uid}, but you are user {geteuid}.").format(
                root=root, st_uid=root.stat().st_uid, geteuid=os.geteuid()
            ),
        )
    if mode & 0o077:
        return (
            "warn",
            _(
                "{root} has mode {mode:04o}: other users can read it. Run `chmod 700 {root}`."
            ).format(root=root, mode=mode),
        )
    return "ok", _("{root}, mode {mode:04o}").format(root=root, mode=mode)


async def check_secrets(installation: Installation) -> CheckResult:
    path = installation.home.secrets_file
    if not path.exists():
        return "ok", _("{path} does not exist yet; `choirctl up` makes it").format(path=path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return "fail", _(
            "{path} has mode {mode:04o}: others can read it. Run `chmod 600 {path}`."
        ).format(path=path, mode=mode)
    try:
        return "ok", _("{path}, mode {mode:04o}, {count}").format(
            path=path,
            mode=mode,
            count=ngettext("{count} secret", "{count} secrets", len(read_secrets(path))),
        )
    except StartupError as error:
        if not is_running(installation.home):
            raise
        return "warn", (
            _(
                "{message} The running Choir keeps the values it has read; its next start and "
                "`choirctl secret apply` need a valid file."
            ).format(message=error.message)
        )


async def check_config(installation: Installation) -> CheckResult:
    if not installation.config.exists():
        return "ok", _("{config} does not exist yet; `choirctl up` makes it").format(
            config=installation.config
        )
    config = read_config(installation.config)
    return "ok", _("{config}: {count}").format(
        config=installation.config,
        count=ngettext("{count} agent", "{count} agents", len(config.agents)),
    )


async def check_disk(installation: Installation) -> CheckResult:
    place = installation.home.root
    # the state directory may not exist yet: measure the file system of its nearest parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    words = _("{free:.1f} GB free at {place}").format(free=free / 1000000000.0, place=place)
    if free < DISK_REQUIRED_BYTES:
        return "fail", _("{words}: Choir needs {disk_required_bytes:.1f} GB to start.").format(
            words=words, disk_required_bytes=DISK_REQUIRED_BYTES / 1000000000.0
        )
    return ("warn" if free < DISK_RECOMMENDED_BYTES else "ok"), words
