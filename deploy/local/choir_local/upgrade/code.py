"""How new code gets in place of the old, and back: a checkout, an environment of wheels, or not at all.

Every method may be repeated after a kill.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol, assert_never

from choir_common.errors import Conflict, InvalidRequest, StartupError
from choir_common.extras import installed_version
from choir_common.i18n import _
from choir_local.exchange import exchange
from choir_local.upgrade.programs import CommandRunner, run_command
from choir_local.upgrade.record import UpgradeRecord, UpgradeVersions

MARK = ".choir-upgrade"
"""File in an environment with the id of the upgrade that built it."""
MAX_SCRIPT = 1 << 20  # bytes; larger files in `bin` are programs


class CodeSource(Protocol):
    """New code, and the way to it and back."""

    async def prepare(self, record: UpgradeRecord) -> UpgradeVersions:
        """Fetch the new code beside the old; return what it is. Raises StartupError or Conflict."""

    async def switch(self, record: UpgradeRecord) -> None:
        """Put the new code in place."""

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Put the old code in place again; nothing to do if it is."""

    def remove_rest(self) -> None:
        """Remove what is no longer needed."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A git checkout, as of `make run`: one commit is exchanged for another."""

    root: Path
    ref: str
    command: CommandRunner = run_command

    async def prepare(self, record: UpgradeRecord) -> UpgradeVersions:
        """Fetch the new commit. Refuses local changes, and a commit that is older."""
        if await self._git("status", "--porcelain", "--untracked-files=no"):
            raise Conflict(
                _("{root} has local changes. Commit or stash them first.").format(root=self.root)
            )
        old = await self._git("rev-parse", "HEAD")
        if await self._git("remote"):
            await self._git("fetch", "--tags")
        new = await self._git("rev-parse", "--verify", "--end-of-options", f"{self.ref}^{{commit}}")
        if new != old and await self._git("merge-base", old, new) == new:
            raise Conflict(
                _(
                    "{ref} ({new}) is older than what is installed ({old}). A database cannot go "
                    "back: restore a backup from that version, see docs/upgrade.md."
                ).format(ref=self.ref, new=new[:12], old=old[:12])
            )
        return record.code.model_copy(update={"old": old, "new": new})

    async def switch(self, record: UpgradeRecord) -> None:
        """Move to the new commit and install what it needs."""
        await self._move(record.code.new)

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Move to the old commit and install what it needs."""
        if record.code.old:
            await self._move(record.code.old)

    def remove_rest(self) -> None:
        """Do nothing: there is no rest."""

    async def _move(self, commit: str) -> None:
        # --keep refuses to overwrite local changes
        await self._git("reset", "--quiet", "--keep", commit)
        await self.command(self.root / "scripts" / "install")

    async def _git(self, *words: str) -> str:
        return await self.command("git", *words, cwd=self.root)


@dataclass(frozen=True, slots=True)
class WheelInstallation:
    """A virtual environment of wheels: a new one is built beside it, and exchanged with it."""

    prefix: Path
    source: str
    """A directory of wheels, or an index's address."""

    @property
    def other(self) -> Path:
        """Return the other environment: the new one before the exchange, the old one after it."""
        return self.prefix.with_name(f"{self.prefix.name}.upgrade")

    async def prepare(self, record: UpgradeRecord) -> UpgradeVersions:
        """Build the new environment and run its choirctl once. Refuses an older version."""
        if self._is_new(self.prefix, record):
            return record.code
        shutil.rmtree(self.other, ignore_errors=True)
        python = self.other / "bin" / "python"
        names = sorted(it.name for it in metadata.distributions() if it.name.startswith("choir"))
        uv = shutil.which("uv")
        if uv:
            base = Path(sys.base_prefix) / "bin" / "python3"
            await run_command(uv, "venv", "--quiet", "--python", base, self.other)
            pip: tuple[str | Path, ...] = (uv, "pip", "install", "--quiet", "--python", python)
        else:
            await run_command(sys._base_executable, "-m", "venv", self.other)  # type: ignore[attr-defined]
            pip = (python, "-m", "pip", "install", "--quiet", "--no-input", "--no-compile")
        await run_command(*pip, *self._options(), *names)
        report = await run_command(python, "-P", "-m", "choirctl", "version", "--json")
        old, new = installed_version(), str(json.loads(report)["version"])
        if _numbers(new) < _numbers(old):
            raise Conflict(
                _(
                    "{source} has Choir {new}, which is older than {old}. A database cannot go back: "
                    "restore a backup from that version, see docs/upgrade.md."
                ).format(source=self.source, new=new, old=old)
            )
        self._relocate()
        (self.other / MARK).write_text(record.id)
        return record.code.model_copy(update={"old": old, "new": new})

    async def switch(self, record: UpgradeRecord) -> None:
        """Exchange the environments."""
        if not self._is_new(self.prefix, record):
            exchange(self.other, self.prefix)

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Exchange them again."""
        if self._is_new(self.prefix, record):
            exchange(self.other, self.prefix)

    def remove_rest(self) -> None:
        """Remove the environment that is not in use."""
        shutil.rmtree(self.other, ignore_errors=True)

    def _options(self) -> tuple[str, ...]:
        if "://" in self.source:
            return ("--index-url", self.source)
        return ("--no-index", "--find-links", str(Path(self.source).absolute()))

    def _is_new(self, environment: Path, record: UpgradeRecord) -> bool:
        mark = environment / MARK
        return mark.exists() and mark.read_text() == record.id

    def _relocate(self) -> None:
        """Name the final path in the scripts, whose first line has the path of their Python."""
        old_path, new_path = (str(path).encode() for path in (self.other, self.prefix))
        for path in (self.other / "bin").iterdir():
            if path.is_file() and not path.is_symlink() and path.stat().st_size < MAX_SCRIPT:
                content = path.read_bytes()
                if old_path in content:
                    path.write_bytes(content.replace(old_path, new_path))


@dataclass(frozen=True, slots=True)
class InstalledVersion:
    """The new code is in place already, by the tool that installed it: there is no way back to the old."""

    async def prepare(self, record: UpgradeRecord) -> UpgradeVersions:
        """Return the version that is installed."""
        return record.code.model_copy(update={"new": installed_version()})

    async def switch(self, record: UpgradeRecord) -> None:
        """Do nothing."""

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Do nothing."""

    def remove_rest(self) -> None:
        """Do nothing."""


def code_source(code: UpgradeVersions) -> CodeSource:
    """Return the way to the code that a record names. Raises InvalidRequest if it is not possible here."""
    match code.kind:
        case "checkout":
            root = find_checkout()
            if root is None:
                raise InvalidRequest(
                    _("Choir is not installed from a git checkout here. Give --from.")
                )
            return Checkout(root, code.source)
        case "wheels":
            if sys.prefix == sys.base_prefix:
                raise InvalidRequest(
                    _("Choir is not installed in a virtual environment of its own.")
                )
            return WheelInstallation(Path(sys.prefix), code.source)
        case "installed":
            return InstalledVersion()
        case "compose":
            raise InvalidRequest(
                _(
                    "An upgrade of the containers in {directory} is unfinished. Continue it: "
                    "`choirctl upgrade --compose {directory}`."
                ).format(directory=code.directory)
            )
        case _:
            assert_never(code.kind)


def find_checkout() -> Path | None:
    """Return the git checkout that this code is from; None if it was installed from wheels."""
    root = Path(__file__).resolve().parents[4]
    return root if (root / ".git").exists() and (root / "scripts" / "install").is_file() else None


def _numbers(version: str) -> tuple[int, ...]:
    digits = [part for part in version.split("+")[0].split(".") if part.isdigit()]
    if not digits:
        raise StartupError(_("{version!r} is not a version.").format(version=version))
    return tuple(map(int, digits))


def installed_program() -> Path:
    """Return choirctl of this environment, whatever version is in it."""
    return Path(sys.prefix) / "bin" / "choirctl"
