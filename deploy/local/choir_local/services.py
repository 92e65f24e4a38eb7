"""Table of the children: the processes of the embedded stack, with their settings and secrets.

Used by `Stack`, run by `Supervisor`. A service gets its settings as `CHOIR_*` variables, and only the
secrets it needs, as one JSON object on its standard input.
"""

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import ClassVar
from urllib.parse import urlsplit

import orjson

from choir_common.errors import ChoirError
from choir_common.http.probe import UNIX, send_probe
from choir_common.ids import ServiceName
from choir_common.postgres.configured import PostgresAddress
from choir_common.secret_file import read_secret_file
from choir_common.stack_secrets import (
    GATEWAY_TOKEN,
    OPERATOR_TOKEN,
    POSTGRES_ADMIN,
    RESERVED_SECRETS,
    bus_key,
)
from choir_common.wire.config import TranscriptionConfig
from choir_common.wire.model import JsonObject
from choir_local.config_values import embedding_settings, gateway_secrets, memory_settings
from choir_local.confinement import SERVICE_NEEDS, confine
from choir_local.home import Home
from choir_local.launch import PYTHON, Command, clean_environment
from choir_local.liveness import LivenessProbe
from choir_local.model_choice import ModelChoice
from choir_local.nats import EmbeddedNats
from choir_local.postgres import EmbeddedPostgres
from choir_local.settings import LocalSettings
from choir_local.stack_secrets import StackSecrets
from choir_local.supervisor import ChildSpec

POSTGRES = "postgres"
READY_REQUEST_S = 5.0
ALIVE_REQUEST_S = 10.0  # a busy machine answers late; a hung process does not answer at all
DEGRADED_AFTER_S = 10.0
# Variables that control's git needs: the user's ssh-agent, proxy and certificates. Agents do not get them.
GIT_VARIABLES = (
    *("SSH_AUTH_SOCK", "GIT_SSL_CAINFO", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"),
    *("ALL_PROXY", "all_proxy"),
)


@dataclass(frozen=True, slots=True)
class StackSetup:
    """What one start of the stack has chosen: servers, model, addresses and secrets."""

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
    transcription: TranscriptionConfig | None = None
    """The entry of config.json with a model directory, which is served here."""

    @property
    def postgres_dsn(self) -> str:
        """Return the database's DSN for the services, without the password."""
        address = self.configured_postgres
        return address.dsn if address else self.postgres.dsn

    @property
    def postgres_password(self) -> str:
        """Return the database's password."""
        address = self.configured_postgres
        return address.password if address else self.secrets.values[POSTGRES_ADMIN]

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
        return {name: value for name, value in values.items() if name not in RESERVED_SECRETS}


class HttpProgram(ABC):
    """Child that answers /livez and a readiness path over HTTP."""

    ready_path: ClassVar[str] = "/readyz"

    def __init__(self, setup: StackSetup) -> None:
        self._setup = setup
        self._unready_since: dict[int, float] = {}

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Return the address where it answers."""

    @abstractmethod
    async def prepare_command(self) -> Command:
        """Return the command to start."""

    async def is_ready(self, pid: int) -> bool:
        """Request the readiness path and expect status 200.

        A service that answers but stays unready (no Chromium, a channel out of reach) counts as started
        after a while: the others must work, and `choirctl status` shows what is missing.
        """
        response = await send_probe(self.endpoint, self.ready_path, READY_REQUEST_S)
        if response is None:
            return False
        if response.status == HTTPStatus.OK:
            return True
        since = self._unready_since.setdefault(pid, time.monotonic())
        return time.monotonic() - since > DEGRADED_AFTER_S

    async def is_alive(self, pid: int) -> bool:
        """Request /livez, which only requires a working process."""
        response = await send_probe(self.endpoint, "/livez", ALIVE_REQUEST_S)
        return response is not None and response.status == HTTPStatus.OK


class RehearsalProgram(HttpProgram):
    """The rehearsal model."""

    ready_path = "/livez"

    @property
    def endpoint(self) -> str:
        """Return the address of the socket that the supervisor listens on."""
        return self._setup.rehearsal_url.removesuffix("/v1")

    async def prepare_command(self) -> Command:
        """Return the command to start."""
        score, fd = self._setup.settings.score, self._setup.rehearsal_fd
        options = ("--score", str(score.absolute())) if score else ()
        # The supervisor owns the listening socket, so the address stays the same across restarts.
        return Command((*PYTHON, "choir_local.rehearsal", "--fd", str(fd), *options), fds=(fd,))


class TranscriberProgram(HttpProgram):
    """Server of the transcription model in `transcription.NAME.model_dir`."""

    ready_path = "/livez"

    @property
    def endpoint(self) -> str:
        """Return the address that agents use, without its path."""
        entry = self._setup.transcription
        address = urlsplit(entry.endpoint if entry else "")
        return f"{address.scheme}://{address.netloc}"

    async def prepare_command(self) -> Command:
        """Return the command to start."""
        entry = self._setup.transcription
        address = urlsplit(self.endpoint)
        place = ("--host", address.hostname or "", "--port", str(address.port or 80))
        model = ("--model-dir", (entry and entry.model_dir) or "")
        return Command((*PYTHON, "choir_local.transcriber", *model, *place))


class ServiceProgram(HttpProgram):
    """One of Choir's own services."""

    name: ClassVar[str]
    module: ClassVar[str]
    depends_on: ClassVar[tuple[str, ...]]
    stops_before: ClassVar[tuple[str, ...]] = ()
    ready_within: ClassVar[timedelta] = timedelta(seconds=120)
    stop_within: ClassVar[timedelta] = timedelta(seconds=10)
    source: ClassVar[str] = ""
    """Name of its log; defaults to its own name."""

    @property
    def endpoint(self) -> str:
        """Return the address of the health endpoints."""
        return f"{UNIX}{self._setup.home.sockets / f'{self.name}.sock'}"

    def settings(self) -> dict[str, str]:
        """Return the variables of this service alone."""
        return {}

    def secrets(self) -> JsonObject:
        """Return the object for the standard input."""
        return {}

    async def prepare_command(self) -> Command:
        """Return the command to start, with the newest secrets."""
        env = clean_environment(**{**_shared_settings(self._setup), **self.settings()})
        stdin = orjson.dumps(self.secrets())
        command = Command((*PYTHON, self.module), env, stdin, death_signal=signal.SIGTERM)
        if self.name in SERVICE_NEEDS:
            return await asyncio.to_thread(confine, self.name, command, self._setup.home)
        return command


class BusProgram(ServiceProgram):
    """A service on the bus."""

    name: ClassVar[ServiceName]

    def secrets(self) -> JsonObject:
        """Return the service's own key to the bus."""
        return {"nats_key": self._setup.secrets.values[bus_key(self.name)]}


class MemoryProgram(BusProgram):
    """The memory service."""

    name = "memory"
    module = "choir_memory"
    depends_on = (POSTGRES, "nats")

    def settings(self) -> dict[str, str]:
        """Return the variables of this service alone."""
        return {"CHOIR_POSTGRES_DSN": self._setup.postgres_dsn}

    def secrets(self) -> JsonObject:
        """Return the key and the password, and what config.json says about embedding and memory."""
        config_file, values = self._setup.home.config_file, self._setup.named_secrets()
        return {
            **super().secrets(),
            "postgres_password": self._setup.postgres_password,
            **embedding_settings(config_file, values),
            **memory_settings(config_file, values),
        }


class BrowserProgram(BusProgram):
    """The browser service."""

    name = "browser"
    module = "choir_browser"
    depends_on = ("nats",)

    @property
    def endpoint(self) -> str:
        """Return the address of its socket, which has a directory of its own."""
        return f"{UNIX}{self._setup.home.service_sockets(self.name) / 'browser.sock'}"


class EgressProgram(ServiceProgram):
    """The egress service; control sends it the agents' keys."""

    name = "egress"
    module = "choir_egress"
    depends_on = ()

    @property
    def endpoint(self) -> str:
        """Return the address of its socket, which agents do not see."""
        return f"{UNIX}{self._setup.home.egress_socket}"


class ControlProgram(BusProgram):
    """Control."""

    name = "control"
    module = "choir_control"
    source = "choird"  # the log is named after the program
    depends_on = (POSTGRES, "nats")
    # Agents complete their turn and write a summary (45 s at most), users receive the last replies, and
    # sessions are archived when they end.
    stops_before = ("gateway", "memory", "browser", "egress", "rehearsal")
    stop_within = timedelta(seconds=65)

    @property
    def endpoint(self) -> str:
        """Return the address of the host socket."""
        return f"{UNIX}{self._setup.home.control_socket}"

    def settings(self) -> dict[str, str]:
        """Return the variables of this service alone."""
        setup = self._setup
        rehearsal = {"CHOIR_REHEARSAL_URL": setup.rehearsal_url} if setup.model.rehearsal else {}
        return {
            "CHOIR_POSTGRES_DSN": setup.postgres_dsn,
            **rehearsal,
            **{name: os.environ[name] for name in GIT_VARIABLES if name in os.environ},
            "CHOIR_HTTP_PORT": str(setup.http_port),
            "CHOIR_GATEWAY_SOCKET": str(setup.home.gateway_socket),
            "CHOIR_EGRESS_ENDPOINT": os.environ.get(
                "CHOIR_EGRESS_ENDPOINT", f"{UNIX}{setup.home.egress_socket}"
            ),
            "CHOIR_DEFAULT_MODEL": setup.model.config.model_dump_json(),
        }

    def secrets(self) -> JsonObject:
        """Return the tokens, the key to the bus and all named secrets."""
        own, values = self._setup.secrets.values, self._setup.named_secrets()
        # from the environment, not the file: reading the file again must not lose it
        supplied = {n: v for n, v in self._setup.model.secrets.items() if values.get(n) != v}
        return {
            **super().secrets(),
            "postgres_password": self._setup.postgres_password,
            "operator_token": own[OPERATOR_TOKEN],
            "gateway_token": own[GATEWAY_TOKEN],
            "secrets": {**values},
            "supplied": {**supplied},
        }


class GatewayProgram(BusProgram):
    """The gateway."""

    name = "gateway"
    module = "choir_gateway"
    depends_on = ("nats",)

    @property
    def endpoint(self) -> str:
        """Return the address of its Unix socket."""
        return f"{UNIX}{self._setup.home.gateway_socket}"

    def settings(self) -> dict[str, str]:
        """Return the variables of this service alone."""
        return {"CHOIR_GATEWAY_SOCKET": str(self._setup.home.gateway_socket)}

    def secrets(self) -> JsonObject:
        """Return the token for control, and those of the bots; other secrets are not passed."""
        names = gateway_secrets(self._setup.home.config_file)
        values = self._setup.named_secrets()
        tokens: JsonObject = {name: values[name] for name in sorted(names) if name in values}
        own: JsonObject = {"gateway_token": self._setup.secrets.values[GATEWAY_TOKEN]}
        return {**super().secrets(), **own, "secrets": tokens}


SERVICES: tuple[type[ServiceProgram], ...] = (
    MemoryProgram,
    BrowserProgram,
    EgressProgram,
    ControlProgram,
    GatewayProgram,
)


def build_children(
    setup: StackSetup, services: Sequence[type[ServiceProgram]]
) -> tuple[ChildSpec, ...]:
    """Return the whole table."""
    rehearsal = (_rehearsal(setup),) if setup.model.rehearsal else ()
    transcriber = (_transcriber(setup),) if setup.transcription else ()
    own_postgres = (_postgres(setup),) if setup.configured_postgres is None else ()
    return (
        *own_postgres,
        _nats(setup),
        *rehearsal,
        *transcriber,
        *(_service(setup, program(setup)) for program in services),
    )


def _postgres(setup: StackSetup) -> ChildSpec:
    postgres = setup.postgres
    return ChildSpec(
        POSTGRES,
        postgres,
        ready_within=postgres.ready_within,
        stop_signal=postgres.stop_signal,
        stop_within=postgres.stop_within,
    )


def _nats(setup: StackSetup) -> ChildSpec:
    return ChildSpec(
        "nats",
        setup.nats,
        ready_within=setup.nats.ready_within,
        probe=LivenessProbe(),
        stop_within=setup.nats.stop_within,
    )


def _rehearsal(setup: StackSetup) -> ChildSpec:
    return ChildSpec(
        "rehearsal",
        RehearsalProgram(setup),
        probe=LivenessProbe(),
        stop_within=timedelta(seconds=4),
    )


def _transcriber(setup: StackSetup) -> ChildSpec:
    return ChildSpec(
        "transcriber",
        TranscriberProgram(setup),
        probe=LivenessProbe(),
        stop_within=timedelta(seconds=4),
    )


def _service(setup: StackSetup, program: ServiceProgram) -> ChildSpec:
    depends_on = program.depends_on
    if setup.configured_postgres is not None:  # a database elsewhere is no child of this stack
        depends_on = tuple(name for name in depends_on if name != POSTGRES)
    return ChildSpec(
        program.name,
        program,
        ready_within=program.ready_within,
        probe=LivenessProbe(),
        depends_on=depends_on,
        stops_before=program.stops_before,
        stop_within=program.stop_within,
        source=program.source,
    )


def _shared_settings(setup: StackSetup) -> dict[str, str]:
    """Return the settings of every service; the caller's CHOIR_ and OTEL_ variables are passed on."""
    inherited = {n: value for n, value in os.environ.items() if n.startswith(("CHOIR_", "OTEL_"))}
    return inherited | {
        "CHOIR_HOME": str(setup.home.root),
        "CHOIR_LOG_LEVEL": setup.settings.log_level,
        "CHOIR_NATS_URL": setup.nats.url,
        "CHOIR_SECRETS_FILE": "/dev/stdin",
    }
