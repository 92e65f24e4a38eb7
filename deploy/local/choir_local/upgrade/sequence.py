"""The order of an upgrade's steps, and what happens after a failure or a kill. Pure, apart from the record.

Each step is recorded before it begins and may be repeated: a kill in it or after it makes no difference.
Until `switch` nothing has changed. From there on a failure undoes everything.
"""

from typing import Protocol, get_args

from choir_common.errors import ChoirError, StartupError
from choir_common.i18n import _
from choir_local.upgrade.record import (
    BackStep,
    ForwardStep,
    Step,
    UpgradeRecord,
    UpgradeRecordFile,
)

FORWARD: tuple[Step, ...] = get_args(ForwardStep)
BACK: tuple[Step, ...] = get_args(BackStep)
HARMLESS: tuple[Step, ...] = ("prepare", "backup")
"""While one of these is at work, Choir itself runs unchanged."""
MAX_ATTEMPTS = 3


class UpgradeSteps(Protocol):
    """What the steps do. Each may be called again after it was interrupted or done."""

    async def run(self, step: Step, record: UpgradeRecord) -> UpgradeRecord:
        """Do one step; return the record, which `prepare` and `backup` complete.

        Raises ChoirError or OSError if it fails.
        """


class ShowStep(Protocol):
    """Receiver of the progress."""

    def __call__(self, step: Step, /) -> None:
        """Take the step that begins."""


class UpgradeSequence:
    """One upgrade, from its beginning or from where it was interrupted."""

    def __init__(self, file: UpgradeRecordFile, steps: UpgradeSteps, show: ShowStep) -> None:
        self._file = file
        self._steps = steps
        self._show = show

    async def run(self, record: UpgradeRecord) -> UpgradeRecord:
        """Do what is left of the upgrade; return its record with the outcome.

        Raises StartupError if it cannot be undone either; calling it again continues.
        """
        if record.outcome is not None:
            return record
        if record.step in BACK:
            return await self._undo(record)
        for step in FORWARD[FORWARD.index(record.step) :]:
            record = record.model_copy(update={"step": step, "last_forward": step})
            try:
                record = await self._do(step, record)
            except (ChoirError, OSError) as error:
                return await self._fail(record, error)
        return self._end(record.model_copy(update={"outcome": "done"}))

    async def resume(self, record: UpgradeRecord) -> UpgradeRecord:
        """Continue after a kill: forward, or back if it was killed too often."""
        if record.outcome is not None:
            return record
        if record.step in HARMLESS:
            record = record.model_copy(
                update={"outcome": "abandoned", "error": _("It was interrupted.")}
            )
            return self._end(record)
        record = record.model_copy(update={"attempts": record.attempts + 1})
        if record.attempts > MAX_ATTEMPTS and record.step in FORWARD and record.step != "finish":
            return await self._undo(
                record.model_copy(update={"error": _("It was killed repeatedly.")})
            )
        return await self.run(record)

    async def _do(self, step: Step, record: UpgradeRecord) -> UpgradeRecord:
        self._file.write(record)
        self._show(step)
        return await self._steps.run(step, record)

    async def _fail(self, record: UpgradeRecord, error: Exception) -> UpgradeRecord:
        record = record.model_copy(update={"error": str(error)})
        if record.step in HARMLESS:
            return self._end(record.model_copy(update={"outcome": "abandoned"}))
        if record.step == "finish":
            # the new version runs and is verified: what is left is only to be removed
            return self._end(record.model_copy(update={"outcome": "done"}))
        return await self._undo(record)

    async def _undo(self, record: UpgradeRecord) -> UpgradeRecord:
        begin = BACK.index(record.step) if record.step in BACK else 0
        for step in BACK[begin:]:
            record = record.model_copy(update={"step": step})
            try:
                record = await self._do(step, record)
            except (ChoirError, OSError) as error:
                raise StartupError(
                    _(
                        "The upgrade failed: {error} Undoing it failed, too, in the step {step}: "
                        "{error2} Run `choirctl upgrade` again to continue; the backup from before is "
                        "{backup}."
                    ).format(error=record.error, step=step, error2=error, backup=record.backup)
                ) from error
        return self._end(record.model_copy(update={"outcome": "rolled-back"}))

    def _end(self, record: UpgradeRecord) -> UpgradeRecord:
        self._file.write(record)
        return record
