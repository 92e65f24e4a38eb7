"""Preparation of the containers: the state directory and the secrets of each service.

Run as root by the one-shot service `setup` at every `docker compose up`; existing files stay. Each
service gets its own volume that contains only what the service may know. The database's password, the
services' keys to the bus and the token between control and the gateway exist only in those volumes. The
operator's token and all provider keys are in $CHOIR_HOME/secrets.json, as with `choirctl up`.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.ids import SERVICE_NAMES, ServiceName
from choir_common.postgres.configured import read_postgres_address
from choir_common.stack_secrets import (
    GATEWAY_TOKEN,
    OPERATOR_TOKEN,
    POSTGRES_ADMIN,
    RESERVED_SECRETS,
    bus_key,
)
from choir_common.wire.config import Config
from choir_common.wire.model import JsonObject
from choir_local.backup.restore_in_place import is_restore_unfinished
from choir_local.backup.sources import BACKUPS
from choir_local.bus_users import render_authorization, service_users
from choir_local.config_values import embedding_settings, memory_settings, read_config
from choir_local.home import Home
from choir_local.model_choice import ModelChoice, choose_model
from choir_local.model_record import (
    configured_model,
    find_missing_model,
    record_choice,
    rehearsal_replaces_model_error,
)
from choir_local.settings import LocalSettings
from choir_local.stack_secrets import create_secret
from choir_local.stack_state import is_locked
from choir_local.upgrade.record import Step, UpgradeRecordFile
from choir_local.version_record import check_version, write_version
from choirctl.start.state_directory import create_state_directory

VOLUMES = Path("/volumes")
COLLECTIONS = "collections"
"""Directory for folders that collections follow; the default of CHOIR_COLLECTIONS."""
CHECKOUT = Path("/run/checkout")
"""Any file of the checkout: its owner is the user who starts Choir."""
SERVICE_UID = 10001
"""The user `choir` of Choir's images."""
ROOT_UID = 0
READABLE = 0o444
"""For third-party images with an unknown user; no other container has the volume."""
REHEARSAL_URL = "http://rehearsal:8080/v1"
REHEARSAL_NEEDED = "needed"
"""A file in the volume of `rehearsal`, which serves only where it exists."""
CONTAINER_SECRETS = (POSTGRES_ADMIN, GATEWAY_TOKEN, *(bus_key(it) for it in SERVICE_NAMES))
HOST = "host.docker.internal"
OLLAMA_ON_HOST = f"http://{HOST}:11434"
OLLAMA_SERVICE = "ollama"
"""The service of the profile of the same name; its name resolves only while it runs."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - compared with
NO_START_STEPS: tuple[Step, ...] = (
    "stop",
    "snapshot",
    "switch",
    "migrate",
    "halt",
    "switch_back",
    "restore",
)
"""Steps of an upgrade in which code and database may not fit together."""
NATS_CONF = """\
host: 0.0.0.0
port: 4222
http: 127.0.0.1:8222
{authorization}
max_payload: 8MB
jetstream {{
  store_dir: "/data/jetstream"
  sync_interval: always
  max_memory_store: 16MB
  max_file_store: 1GB
}}
"""


@dataclass(frozen=True, slots=True)
class FileOwner:
    """Owner of the files in the state directory."""

    uid: int
    gid: int


def print_message(text: str) -> None:
    """Print a message for `docker compose logs setup`."""
    sys.stderr.write(f"{text}\n")


def find_owner(home: Path) -> FileOwner:
    """Return the state directory's owner; one that the engine just created goes to the checkout's owner.

    A directory below /root stays root's, because no other user could reach it.
    """
    status = home.stat()
    private = home.is_relative_to("/root")
    if status.st_uid == 0 and not private and not any(home.iterdir()):
        status = CHECKOUT.stat()
        os.chown(home, status.st_uid, status.st_gid)
        home.chmod(0o700)
    return FileOwner(status.st_uid, status.st_gid)


@contextlib.contextmanager
def run_as(owner: FileOwner) -> Iterator[None]:
    """Run the block as another user, who then owns the files it creates."""
    user, group = os.geteuid(), os.getegid()
    os.setegid(owner.gid)
    os.seteuid(owner.uid)
    try:
        yield
    finally:
        os.seteuid(user)
        os.setegid(group)


def create_home(owner: FileOwner, home: Path) -> None:
    """Create what is missing in the state directory, as files of its owner."""
    collections, backups = home / COLLECTIONS, home / BACKUPS
    with run_as(owner):
        paths = list(create_state_directory(home).paths)
        if not backups.exists():
            # a mount of control: the engine would make it as root's
            backups.mkdir(mode=0o700)
            paths.append(backups)
        if not collections.exists():
            collections.mkdir()
            # only this directory is mounted into memory's container, which runs as another user
            collections.chmod(0o755)
            paths.append(collections)
    for path in paths:
        print_message(f"made {path}")


def read_json(path: Path) -> dict[str, str]:
    """Read a JSON object of strings; errors do not quote its contents."""
    try:
        values: object = json.loads(path.read_text())
    except ValueError:
        raise StartupError(f"{path} is not valid JSON. Correct it; nothing was changed.") from None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise StartupError(f"{path} must contain one JSON object with string values.")
    return values


def load_or_create_container_secrets(path: Path) -> dict[str, str]:
    """Return the containers' own secrets; create those that are missing, and drop those of old versions."""
    before = read_json(path) if path.exists() else {}
    values = {name: before.get(name) or create_secret(name) for name in CONTAINER_SECRETS}
    if values != before:
        write_file(path, json.dumps(values), FileOwner(ROOT_UID, ROOT_UID), 0o400)
        print_message("created the containers' own secrets")
    return values


def channel_secrets(config: Path, named: Mapping[str, str]) -> JsonObject:
    """Return the secrets that the configured gateways name, which are all that the gateway may know."""
    try:
        gateways = Config.model_validate_json(config.read_bytes()).gateways.values()
    except ValidationError:
        return {}  # control reports the error
    wanted = {gateway.secret for gateway in gateways if gateway.secret}
    return {name: value for name, value in named.items() if name in wanted}


def write_file(path: Path, text: str, owner: FileOwner, mode: int) -> None:
    """Replace a file atomically."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(mode)
    os.chown(partial, owner.uid, owner.gid)
    partial.replace(path)


def write_secrets(
    service: ServiceName, own: Mapping[str, str], values: JsonObject, owner: FileOwner
) -> None:
    """Write a service's secrets and its key to the bus into its volume, readable only by its user."""
    text = json.dumps({"nats_key": own[bus_key(service)], **values})
    write_file(VOLUMES / service / "secrets.json", text, owner, 0o400)


def reject_loopback(settings: LocalSettings) -> None:
    """Refuse a model's address that means the container itself. Raises StartupError."""
    for name, address in (
        ("OPENAI_BASE_URL", settings.openai_base_url),
        ("CHOIR_OLLAMA_URL", settings.ollama_host),
        ("CHOIR_LMSTUDIO_URL", settings.lmstudio_url),
        ("CHOIR_LLAMACPP_URL", settings.llamacpp_url),
        ("CHOIR_VLLM_URL", settings.vllm_url),
    ):
        if urlsplit(address).hostname in LOOPBACK:
            raise StartupError(
                f"{name} is {address}, which inside a container is the container itself. Write "
                f"{HOST} for this machine, and let the server listen where containers reach it."
            )


def find_ollama(address: str) -> str:
    """Return where Ollama is: in this stack if it runs there, unless another address was set."""
    if address != OLLAMA_ON_HOST:
        return address
    try:
        socket.getaddrinfo(OLLAMA_SERVICE, None)
    except OSError:
        return address
    return f"http://{OLLAMA_SERVICE}:11434"


def _configured(config_file: Path, named: Mapping[str, str]) -> JsonObject:
    """Return the database address in config.json for memory; control reads it from the file."""
    address = read_postgres_address(config_file, named)
    return {"postgres_dsn": address.dsn, "postgres_password": address.password} if address else {}


def choose_default_model(
    home: Path, owner: FileOwner, settings: LocalSettings, named: Mapping[str, str]
) -> ModelChoice:
    """Return the model `default`, and record the model of this start for the next one.

    Raises StartupError if the rehearsal model would replace the real model of the last start.
    """
    record = Home(home).model_file
    choice = asyncio.run(choose_model(settings, named, REHEARSAL_URL))
    demanded = settings.model_source != "auto"
    own = None if demanded else configured_model(read_config(home / "config.json"), settings)
    missing = find_missing_model(record, choice, settings) if own is None else None
    if missing is not None:
        raise rehearsal_replaces_model_error(missing)
    # only a help for the next start: a failure must not prevent this one
    with run_as(owner), contextlib.suppress(OSError):
        record_choice(record, own or choice)
    mark_rehearsal(own or choice, read_config(home / "config.json"))
    return choice


def mark_rehearsal(choice: ModelChoice, config: Config | None) -> None:
    """Let the service `rehearsal` serve only where a model of this stack has its address."""
    models = (choice.config, *(config.models.values() if config else ()))
    needed = VOLUMES / "rehearsal" / REHEARSAL_NEEDED
    if any(model.endpoint == REHEARSAL_URL for model in models):
        needed.touch()
    else:
        needed.unlink(missing_ok=True)


def write_service_secrets(home: Path, owner: FileOwner) -> None:
    """Write each service's secrets and settings to its volume."""
    own = load_or_create_container_secrets(VOLUMES / "setup" / "secrets.json")
    stored = read_json(home / "secrets.json")
    named = {name: value for name, value in stored.items() if name not in RESERVED_SECRETS}
    settings = LocalSettings.load()
    reject_loopback(settings)
    settings = settings.model_copy(update={"ollama_host": find_ollama(settings.ollama_host)})
    model = choose_default_model(home, owner, settings, named)
    print_message(f"the model `default` is {model.description}")
    for note in model.notes:
        print_message(note)

    choir = FileOwner(SERVICE_UID, SERVICE_UID)
    database: JsonObject = {"postgres_password": own[POSTGRES_ADMIN]}
    operator: JsonObject = {"operator_token": stored[OPERATOR_TOKEN]}
    gateway: JsonObject = {"gateway_token": own[GATEWAY_TOKEN]}
    supplied = {name: value for name, value in model.secrets.items() if named.get(name) != value}
    everything: JsonObject = {"secrets": {**named}, "supplied": {**supplied}}
    channels: JsonObject = {"secrets": channel_secrets(home / "config.json", named)}
    config_file = home / "config.json"
    told = {**embedding_settings(config_file, named), **memory_settings(config_file, named)}
    configured = _configured(config_file, named)
    write_secrets("control", own, {**database, **operator, **gateway, **everything}, owner)
    write_secrets("memory", own, {**database, **told, **configured}, choir)
    write_secrets("gateway", own, {**gateway, **channels}, choir)
    write_secrets("browser", own, {}, choir)

    told_control = json.dumps({"CHOIR_DEFAULT_MODEL": model.config.model_dump_json()})
    root = FileOwner(ROOT_UID, ROOT_UID)
    write_file(VOLUMES / "control" / "settings.json", told_control, root, READABLE)
    write_file(VOLUMES / "postgres" / "password", own[POSTGRES_ADMIN], root, READABLE)
    conf = NATS_CONF.format(authorization=render_authorization(service_users(own)))
    write_file(VOLUMES / "nats" / "nats.conf", conf, root, READABLE)


def refuse_unfinished_work(home: Home) -> None:
    """Raise StartupError if an older version must not start, or an upgrade or restore is unfinished.

    An upgrade itself starts containers in its own steps, so those steps are permitted.
    """
    if is_restore_unfinished(home):
        raise StartupError(
            "A restore was interrupted. Run it again: `docker compose run --rm --no-deps control choirctl "
            "backup restore FILE --replace`."
        )
    record = UpgradeRecordFile(home).read()
    if record is not None and record.outcome is None and record.step in NO_START_STEPS:
        raise StartupError(
            f"An upgrade was interrupted in the step {record.step}. Continue it: `choirctl upgrade --compose "
            f"{record.code.directory}`."
        )
    check_version(home, home.root / BACKUPS)


def main() -> int:
    """Prepare the containers; return the exit code."""
    home = Path(os.environ["CHOIR_HOME"])
    try:
        refuse_unfinished_work(Home(home))
        if is_locked(Home(home)):
            raise StartupError(
                f"`choirctl up` runs in {home}. Stop it with `choirctl down`, or give the containers "
                "another state directory with CHOIR_HOME."
            )
        owner = find_owner(home)
        create_home(owner, home)
        write_service_secrets(home, owner)
        with run_as(owner):
            write_version(Home(home))
    except StartupError as error:
        print_message(error.message)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
