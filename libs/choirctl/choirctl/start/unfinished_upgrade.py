"""Completion of an upgrade that was interrupted. Called by `up` before it starts anything."""

import os
import sys

from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.target import read_env
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choir_local.stack_state import is_locked
from choir_local.upgrade.code import installed_program
from choir_local.upgrade.record import STEP_VARIABLE, UpgradeRecordFile, is_unfinished
from choir_local.upgrade.sequence import UpgradeSequence
from choir_local.upgrade.steps import EmbeddedSteps
from choirctl.output.language import tr
from choirctl.output.printing import stderr_console


async def finish_upgrade(settings: LocalSettings, *, in_background: bool) -> bool:
    """Complete or undo an interrupted upgrade; return False if there was none.

    Leaves Choir running only if it is to run in the background. Raises Conflict while an upgrade is at work.
    """
    home = Home(settings.home)
    if read_env(STEP_VARIABLE) or not is_unfinished(home):
        return False
    file = UpgradeRecordFile(home)
    with file.lock():
        record = file.read()
        if record is None or record.outcome is not None:
            return False
        steps = EmbeddedSteps(settings, record)
        with stderr_console().status(_("continuing an interrupted upgrade…")) as line:
            sequence = UpgradeSequence(
                file, steps, lambda step: line.update(tr(_("upgrade: {step}…").format(step=step)))
            )
            record = await sequence.resume(record)
        if is_locked(home) and not in_background:
            await steps.run("stop", record)
    words = {"done": _("completed"), "rolled-back": _("undone"), "abandoned": _("not begun")}
    stderr_console().print(
        _("The upgrade that was interrupted is {words}. {error}").format(
            words=words[record.outcome or "done"], error=record.error
        ),
        markup=False,
    )
    if record.outcome == "rolled-back" and record.code.kind == "installed":
        raise ChoirError(
            _("The old version is not installed any more. Install it again, then `choirctl up`.")
        )
    return True


def restart_command() -> None:
    """Run this command again in the version that is installed now. Does not return."""
    program = str(installed_program())
    os.execv(program, [program, *sys.argv[1:]])  # noqa: S606 - the same command
