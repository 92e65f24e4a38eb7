"""Table of the children: the processes of the embedded stack, with their settings and secrets.

Used by `EmbeddedStack`, run by `Supervisor`. A service gets its settings as `CHOIR_*` variables, and only
the secrets
it needs, as one JSON object on its standard input.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

import orjson

from choir_common.errors import ChoirError
from choir_common.postgres.configured import PostgresAddress
from choir_common.secret_file import read_secret_file
from choir_common.wire.model import JsonObject
from choir_local.config_values import embedding_settings, gateway_secrets, memory_settings
from choir_local.home import Home
from choir_local.http_probe import UNIX, send_probe
from choir_local.launch import Command, clean_environment
from choir_local.liveness import LivenessProbe
from choir_local.model_choice import ModelChoice
from choir_local.nats import EmbeddedNats
from choir_local.postgres import EmbeddedPostgres
from choir_local.running import Ready
from choir_local.settings import LocalSettings
from choir_local.stack_secrets import (
    NATS_TOKEN,
    OPERATOR_TOKEN,
    POSTGRES_ADMIN,
    STACK_SECRETS,
    StackSecrets,
)
from choir_local.supervisor import ChildSpec

POSTGRES = "postgres"
ASK_S = 5.0
PROBE_WITHIN_S = 10.0  # a busy machine answers late; a hung process does not answer at all
DEGRADED_AFTER_S = 10.0
PYTHON = (sys.executable, "-P", "-m")  # -P: the working directory is not searched for modules


@dataclass(slots=True)
class StackParts:
    """Inputs for building the children."""

    home: Home
    settings: LocalSettings
    secrets: StackSecrets
    postgres: EmbeddedPostgres
    nats: EmbeddedNats
    model: ModelChoice
    rehearsal_url: str
    rehearsal_fd: int
    http_port: int
    configured_postgres: PostgresAddress | None = None
    """Address of the database in config.json; if set, no server is run here."""
    postgres_prepared: bool = False

    @property
    def postgres_dsn(self) -> str:
        """Return the database's DSN for the services, without the password."""
        found = self.configured_postgres
        return found.dsn if found else self.postgres.dsn

    @property
    def postgres_password(self) -> str:
        """Return the database's password."""
        found = self.configured_postgres
        return found.password if found else self.secrets.values[POSTGRES_ADMIN]

    def named_secrets(self) -> dict[str, str]:
        """Return the current secrets in secrets.json, without the stack's own.

        The file is read at each start of a service, so that a restarted one gets the newest values. If the
        file is invalid, the values of the last valid read are used; `choirctl secret apply` reports the
        error.
        """
        try:
            values: Mapping[str, str] = read_secret_file(self.home.secrets_file)
        except ChoirError:
            values = self.secrets.values
        return {name: value for name, value in values.items() if name not in STACK_SECRETS}


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One of Choir's own processes."""

    name: str
    module: str
    depends_on: tuple[str, ...]
    endpoint: Callable[[StackParts], str]
    """Address where it answers /livez and /readyz."""
    env: Callable[[StackParts], Mapping[str, str]]
    secrets: Callable[[StackParts], JsonObject]
    stops_before: tuple[str, ...] = ()
    ready_within: timedelta = timedelta(seconds=60)
    stop_within: timedelta = timedelta(seconds=10)
    source: str = ""
    """Name of its log; defaults to its own name."""


def build_children(parts: StackParts, services: Sequence[ServiceSpec]) -> tuple[ChildSpec, ...]:
    """Return the whole table."""
    rehearsal = (_rehearsal(parts),) if parts.model.rehearsal else ()
    own_postgres = (_postgres(parts),) if parts.configured_postgres is None else ()
    return (
        *own_postgres,
        _nats(parts),
        *rehearsal,
        *(_service(parts, service) for service in services),
    )


def _postgres(parts: StackParts) -> ChildSpec:
    async def command() -> Command:
        # A newly created password is not the one that an existing cluster has.
        lost = POSTGRES_ADMIN in parts.secrets.created and not parts.postgres_prepared
        await parts.postgres.prepare(reset_password=lost)
        parts.postgres_prepared = True
        return parts.postgres.command()

    return ChildSpec(
        name=POSTGRES,
        command=command,
        ready=parts.postgres.is_ready,
        ready_within=parts.postgres.ready_within,
        stop_signal=parts.postgres.stop_signal,
        stop_within=parts.postgres.stop_within,
    )


def _nats(parts: StackParts) -> ChildSpec:
    async def command() -> Command:
        await parts.nats.prepare()
        return parts.nats.command()

    nats = parts.nats
    return ChildSpec(
        "nats",
        command,
        nats.is_ready,
        ready_within=nats.ready_within,
        probe=LivenessProbe(nats.is_ready),
        stop_within=nats.stop_within,
    )


def _rehearsal(parts: StackParts) -> ChildSpec:
    score = parts.settings.score
    options = ("--score", str(score.absolute())) if score else ()

    async def command() -> Command:
        # The supervisor owns the listening socket, so the address stays the same across restarts.
        fd = parts.rehearsal_fd
        argv = (*PYTHON, "choir_local.rehearsal", "--fd", str(fd), *options)
        return Command(argv, fds=(fd,))

    endpoint = parts.rehearsal_url.removesuffix("/v1")
    return ChildSpec(
        "rehearsal",
        command,
        _answers(endpoint, "/livez"),
        probe=LivenessProbe(_lives(endpoint)),
        stop_within=timedelta(seconds=4),
    )


def _service(parts: StackParts, service: ServiceSpec) -> ChildSpec:
    async def command() -> Command:
        env = clean_environment(**{**_shared_settings(parts), **service.env(parts)})
        stdin = orjson.dumps(service.secrets(parts))
        return Command((*PYTHON, service.module), env, stdin, death_signal=signal.SIGTERM)

    return ChildSpec(
        name=service.name,
        command=command,
        ready=_answers(service.endpoint(parts), "/readyz"),
        ready_within=service.ready_within,
        probe=LivenessProbe(_lives(service.endpoint(parts))),
        depends_on=_run_here(parts, service.depends_on),
        stops_before=service.stops_before,
        stop_within=service.stop_within,
        source=service.source,
    )


def _run_here(parts: StackParts, names: Sequence[str]) -> tuple[str, ...]:
    """Return the children among these names that this stack runs itself."""
    return tuple(name for name in names if name != POSTGRES or parts.configured_postgres is None)


def _shared_settings(parts: StackParts) -> dict[str, str]:
    """Return the settings of every service; the caller's CHOIR_ and OTEL_ variables are passed on."""
    passed = {n: value for n, value in os.environ.items() if n.startswith(("CHOIR_", "OTEL_"))}
    return passed | {
        "CHOIR_HOME": str(parts.home.root),
        "CHOIR_LOG_LEVEL": parts.settings.log_level,
        "CHOIR_NATS_URL": parts.nats.url,
        "CHOIR_SECRETS_FILE": "/dev/stdin",
    }


def _answers(endpoint: str, path: str) -> Ready:
    """Return a check that requests `path` and expects status 200.

    A service that answers but stays unready (no Chromium, a channel out of reach) counts as started after a
    while: the others must work, and `choirctl status` shows what is missing.
    """
    unready_since: dict[int, float] = {}

    async def ready(pid: int) -> bool:
        heard = await send_probe(endpoint, path, ASK_S)
        if heard is None:
            return False
        if heard.status == HTTPStatus.OK:
            return True
        since = unready_since.setdefault(pid, time.monotonic())
        return time.monotonic() - since > DEGRADED_AFTER_S

    return ready


def _lives(endpoint: str) -> Ready:
    """Return a check that requests /livez, which only requires a working process."""

    async def lives(_: int) -> bool:
        heard = await send_probe(endpoint, "/livez", PROBE_WITHIN_S)
        return heard is not None and heard.status == HTTPStatus.OK

    return lives


def _health_socket(name: str) -> Callable[[StackParts], str]:
    return lambda parts: f"{UNIX}{parts.home.sockets / f'{name}.sock'}"


def _bus_secrets(parts: StackParts) -> JsonObject:
    return {"nats_token": parts.secrets.values[NATS_TOKEN]}


def _database_secrets(parts: StackParts) -> JsonObject:
    return {**_bus_secrets(parts), "postgres_password": parts.postgres_password}


def _memory_secrets(parts: StackParts) -> JsonObject:
    config_file, named = parts.home.config_file, parts.named_secrets()
    told = {**embedding_settings(config_file, named), **memory_settings(config_file, named)}
    return {**_database_secrets(parts), **told}


def _gateway_secrets(parts: StackParts) -> JsonObject:
    """Return the bots' tokens; other secrets are not passed to the gateway."""
    named = gateway_secrets(parts.home.config_file)
    values = parts.named_secrets()
    tokens: JsonObject = {name: values[name] for name in sorted(named) if name in values}
    operator: JsonObject = {"operator_token": parts.secrets.values[OPERATOR_TOKEN]}
    return {**_bus_secrets(parts), **operator, "secrets": tokens}


def _control_secrets(parts: StackParts) -> JsonObject:
    named = parts.named_secrets()
    # from the environment, not the file: reading the file again must not lose it
    found = {n: v for n, v in parts.model.secrets.items() if named.get(n) != v}
    return {
        **_database_secrets(parts),
        "operator_token": parts.secrets.values[OPERATOR_TOKEN],
        "secrets": {**named},
        "supplied": {**found},
    }


def _postgres_env(parts: StackParts) -> dict[str, str]:
    return {"CHOIR_POSTGRES_DSN": parts.postgres_dsn}


# Variables that control's git needs: the user's ssh-agent, proxy and certificates. Agents do not get them.
FOR_GIT = (
    *("SSH_AUTH_SOCK", "GIT_SSL_CAINFO", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"),
    *("ALL_PROXY", "all_proxy"),
)


def _control_env(parts: StackParts) -> dict[str, str]:
    rehearsal = {"CHOIR_REHEARSAL_URL": parts.rehearsal_url} if parts.model.rehearsal else {}
    return {
        **_postgres_env(parts),
        **rehearsal,
        **{name: os.environ[name] for name in FOR_GIT if name in os.environ},
        "CHOIR_HTTP_PORT": str(parts.http_port),
        "CHOIR_GATEWAY_SOCKET": str(parts.home.gateway_socket),
        "CHOIR_DEFAULT_MODEL": parts.model.config.model_dump_json(),
    }


SERVICES = (
    ServiceSpec(
        name="memory",
        module="choir_memory",
        depends_on=("postgres", "nats"),
        endpoint=_health_socket("memory"),
        env=_postgres_env,
        secrets=_memory_secrets,
    ),
    ServiceSpec(
        name="browser",
        module="choir_browser",
        depends_on=("nats",),
        endpoint=_health_socket("browser"),
        env=lambda parts: {},
        secrets=_bus_secrets,
    ),
    ServiceSpec(
        name="control",
        module="choir_control",
        source="choird",  # the log is named after the program
        depends_on=("postgres", "nats"),
        endpoint=lambda parts: f"{UNIX}{parts.home.control_socket}",
        env=_control_env,
        secrets=_control_secrets,
        # Agents complete their turn and write a summary (45 s at most), users receive the last replies, and
        # sessions are archived when they end.
        stops_before=("gateway", "memory", "browser", "rehearsal"),
        stop_within=timedelta(seconds=65),
    ),
    ServiceSpec(
        name="gateway",
        module="choir_gateway",
        depends_on=("nats",),
        endpoint=lambda parts: f"{UNIX}{parts.home.gateway_socket}",
        env=lambda parts: {"CHOIR_GATEWAY_SOCKET": str(parts.home.gateway_socket)},
        secrets=_gateway_secrets,
    ),
)
