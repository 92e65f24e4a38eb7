"""`docker compose` on one project: its services, images and database, as an upgrade needs them.

COMPOSE_FILE, COMPOSE_PROFILES and COMPOSE_PROJECT_NAME apply as for the user's own `docker compose up`: from
the environment or the `.env` of the directory.
"""

import json
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from choir_common.errors import Conflict, InvalidRequest, StartupError
from choir_common.i18n import _
from choir_local.home import Home
from choir_local.postgres_cluster import DATABASE, SUPERUSER
from choir_local.upgrade.programs import CommandRunner

MAINTENANCE = "postgres"
DATA = "/var/lib/postgresql/data"
DATABASE_SERVICE, CONTROL_SERVICE = "postgres", "control"
STAYS = frozenset({"postgres", "nats", "setup", "agent", "ollama"})
"""Services that an upgrade does not stop: the servers it needs, those that have ended, and the model."""
OWN_TAG, NEXT_TAG, BEFORE_TAG = "local", "upgrade-next", "upgrade-before"
START_WITHIN = timedelta(minutes=15)
FETCH_WITHIN = timedelta(hours=1)
"""For a build of all images, or the download of one."""
HEALTHY_WITHIN_S = "300"
"""The same time as in the health checks of docker-compose.yml, in seconds."""


class ComposeService(BaseModel):
    """A service as `docker compose config` shows it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    image: str = ""
    build: object = None
    environment: dict[str, str | None] = Field(default_factory=dict)


class ComposeConfig(BaseModel):
    """The rendered project."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    services: dict[str, ComposeService]

    @property
    def own_images(self) -> list[str]:
        """Return the images that the project builds, without their tag `local`."""
        names = {it.image for it in self.services.values() if it.build and it.image}
        return sorted(it.removesuffix(f":{OWN_TAG}") for it in names if it.endswith(f":{OWN_TAG}"))

    @property
    def published_prefix(self) -> str:
        """Return CHOIR_IMAGES, with which the names of published images begin."""
        name = self.services[CONTROL_SERVICE].image.rpartition(":")[0]
        return name.removesuffix(CONTROL_SERVICE)


class ComposeProject:
    """One project in the directory of its compose file."""

    def __init__(self, directory: Path, home: Home, run: CommandRunner) -> None:
        self.directory = directory
        self._home = home
        self._run = run

    async def config(self) -> ComposeConfig:
        """Return the project.

        Raises Conflict if it uses another state directory, InvalidRequest if it is not Choir's.
        """
        config = ComposeConfig.model_validate_json(await self.compose("config", "--format=json"))
        control = config.services.get(CONTROL_SERVICE)
        if control is None:
            raise InvalidRequest(
                _("{directory} has no compose file of Choir.").format(directory=self.directory)
            )
        home = control.environment.get("CHOIR_HOME")
        if home != str(self._home.root):
            raise Conflict(
                _(
                    "The containers of {directory} use the state directory {home}, not {root}. Give "
                    "--home {home}."
                ).format(directory=self.directory, home=home, root=self._home.root)
            )
        return config

    async def compose(
        self, *words: str, within: timedelta = START_WITHIN, version: str = ""
    ) -> str:
        """Run docker compose in the directory; return its output. `version` replaces CHOIR_VERSION."""
        env = {"CHOIR_HOME": str(self._home.root)}
        if version:
            env["CHOIR_VERSION"] = version
        return await self._run(
            "docker", "compose", *words, cwd=self.directory, env=env, within=within
        )

    async def engine(self, *words: str) -> str:
        """Run docker; return its output."""
        return await self._run("docker", *words)

    async def is_running(self) -> bool:
        """Return whether control's container runs."""
        names = await self.compose("ps", "--services", "--status=running")
        return CONTROL_SERVICE in names.split()

    async def build(self, code: Path, config: ComposeConfig) -> None:
        """Build the images of other code under a tag of their own, so that no container starts from them."""
        services = {
            name: {"image": _tagged(it.image, NEXT_TAG)}
            for name, it in config.services.items()
            if it.build and it.image.endswith(f":{OWN_TAG}")
        }
        tags = code.with_name("tags.json")
        tags.write_text(json.dumps({"services": services}))
        # the other code may have services that this one does not: they are built under their own names
        await self.compose(*self._other(code, config, tags), "build", within=FETCH_WITHIN)

    async def pull(self, code: Path, config: ComposeConfig, version: str) -> None:
        """Pull the images of other code: those of Choir in a version, and of the others what is not here."""
        other = self._other(code, config, code / "deploy/docker/published.yml")
        text = await self.compose(*other, "config", "--format=json", version=version)
        services = ComposeConfig.model_validate_json(text).services.values()
        local_images = await self.images()
        for image in sorted({it.image for it in services}):
            if image.startswith(config.published_prefix) or image not in local_images:
                await self.pull_image(image)

    async def pull_image(self, image: str) -> None:
        """Pull one image. Raises StartupError if the registry does not have it."""
        await self._run("docker", "pull", "--quiet", image, within=FETCH_WITHIN)

    async def images(self) -> set[str]:
        """Return the names of this machine's images, with their tags."""
        text = await self.engine("image", "ls", "--format={{.Repository}}:{{.Tag}}")
        return set(text.split())

    def _other(self, code: Path, config: ComposeConfig, addition: Path) -> tuple[str, ...]:
        """Return the options with which compose reads other code, with this directory's settings."""
        env_file = self.directory / ".env"
        options = ("--env-file", str(env_file)) if env_file.exists() else ()
        files = ("-f", str(code / "docker-compose.yml"), "-f", str(addition))
        return ("--project-directory", str(code), "--project-name", config.name, *options, *files)

    async def tag_images(self, config: ComposeConfig, old: str, new: str) -> None:
        """Give images with the tag `old` the tag `new`, too; those that do not exist are left out."""
        images = await self.images()
        for image in config.own_images:
            if f"{image}:{old}" in images:
                await self.engine("tag", f"{image}:{old}", f"{image}:{new}")

    async def untag_images(self, config: ComposeConfig) -> None:
        """Remove the tags of an upgrade; an image without another tag is removed."""
        images = await self.images()
        tags = {f"{it}:{tag}" for it in config.own_images for tag in (NEXT_TAG, BEFORE_TAG)}
        for name in sorted(tags & images):
            await self.engine("image", "rm", name)

    async def stop(self, config: ComposeConfig, *, everything: bool = False) -> None:
        """Stop Choir, and with `everything` its database; remove agents that a killed control left."""
        names = () if everything else sorted(set(config.services) - STAYS)
        await self.compose("stop", *names)
        agents = await self.engine(
            "ps", "--all", "--quiet", f"--filter=label=choir.home={self._home.root}"
        )
        if agents.split():
            # their sessions are resumed
            await self.engine("rm", "--force", *agents.split())

    async def start_database(self) -> None:
        """Start the database alone, or do nothing if it runs."""
        # without its dependencies compose takes it for another container and would replace it
        options = ("--detach", "--wait", "--no-build", "--no-recreate", "--no-deps")
        await self.compose("up", *options, DATABASE_SERVICE)

    async def start(self) -> None:
        """Start everything and wait until it is healthy."""
        options = ("--detach", "--no-build", "--wait", "--wait-timeout", HEALTHY_WITHIN_S)
        try:
            # without a limit compose waits for a container that ends and is restarted as long as it runs
            await self.compose("up", *options)
        except StartupError as error:
            words = ("--no-color", "--no-log-prefix", "--tail=3", CONTROL_SERVICE)
            logs = await self.compose("logs", *words)
            raise StartupError(
                _(
                    "The containers did not become healthy. The last output of control: {logs}"
                ).format(logs=logs or _("none"))
            ) from error

    async def choirctl(self, config: ComposeConfig, *words: str) -> str:
        """Run choirctl of the images that are in place, in a container of its own."""
        name = f"{config.name}-upgrade"
        # of an upgrade that was killed: it must not go on beside this one
        containers = await self.engine("ps", "--all", "--quiet", f"--filter=name=^/{name}$")
        if containers.split():
            await self.engine("rm", "--force", *containers.split())
        return await self.compose(
            *("run", "--rm", "--no-deps", "-T", "--name", name, CONTROL_SERVICE, "choirctl", *words)
        )

    async def sql(self, *statements: str, database: str = MAINTENANCE) -> str:
        """Run statements, each in a transaction of its own; return the rows, one a line."""
        commands = [word for text in statements for word in ("-c", text)]
        return await self.compose(
            *(
                "exec",
                "-T",
                DATABASE_SERVICE,
                "psql",
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
            ),
            *("-U", SUPERUSER, "-d", database, *commands),
        )

    async def database_space(self) -> tuple[int, int]:
        """Return the size of the database and the free space on its disk, in bytes."""
        size = int(await self.sql(f"SELECT pg_database_size('{DATABASE}')"))
        table = await self.compose("exec", "-T", DATABASE_SERVICE, "df", "-Pk", DATA)
        return size, int(table.splitlines()[-1].split()[3]) * 1024


def _tagged(image: str, tag: str) -> str:
    return f"{image.rpartition(':')[0]}:{tag}"
