"""The kinds of installations that an upgrade works on: of this machine, or of docker compose."""

from pathlib import Path

from choir_local.home import Home
from choir_local.settings import LocalSettings
from choir_local.upgrade.compose_project import ComposeProject
from choir_local.upgrade.compose_steps import ComposeSteps
from choir_local.upgrade.programs import run_command
from choir_local.upgrade.record import UpgradeRecord, UpgradeVersions
from choir_local.upgrade.sequence import UpgradeSteps
from choir_local.upgrade.steps import EmbeddedSteps


def upgrade_steps(settings: LocalSettings, record: UpgradeRecord) -> UpgradeSteps:
    """Return the steps of an upgrade. Raises InvalidRequest if they are not possible here."""
    if record.code.kind == "compose":
        return ComposeSteps(Home(settings.home.expanduser().absolute()), record)
    return EmbeddedSteps(settings, record)


async def containers_run(home: Home, code: UpgradeVersions) -> bool:
    """Return whether the containers of a compose project run. Raises StartupError without docker."""
    return await ComposeProject(Path(code.directory), home, run_command).is_running()
