"""Follow the progress of an operation and show it. Used by the commands that build, update and reset."""

import asyncio
import contextlib
from collections.abc import Callable

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from choir_common.errors import ErrorEnvelope, Unavailable, from_envelope
from choir_common.i18n import _
from choir_common.wire.operations import OperationEvent, OperationStarted, OperationView
from choirctl.api.control import ControlClient
from choirctl.output.language import server_text
from choirctl.output.printing import stderr_console


async def await_operation(
    api: ControlClient, operation: OperationStarted, *, quiet: bool
) -> OperationView:
    """Show the progress of an operation that was started, and return its final state.

    With `quiet`, nothing is shown. Raises the errors of `AsyncOperations.follow`.
    """
    try:
        return await show_progress(api, operation.operation_id, quiet=quiet)
    except asyncio.CancelledError:
        stderr_console().print(
            _(
                "The operation continues in the background: `choirctl operation show "
                "{operation_id} --follow`."
            ).format(operation_id=operation.operation_id),
            markup=False,
        )
        raise


async def show_progress(
    api: ControlClient, operation_id: str, *, quiet: bool = False
) -> OperationView:
    """Show an operation's progress on standard error unless `quiet`; return its final state."""
    if quiet:
        return await _follow(api, operation_id, lambda _: None)
    console = stderr_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        display = ProgressDisplay(bar, bar.add_task("", total=1.0))
        return await _follow(api, operation_id, display.show_event)


class ProgressDisplay:
    """Progress bar for an operation, with its log lines above."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def show_event(self, event: OperationEvent) -> None:
        """Show a progress event or log line."""
        if event.kind == "step":
            self._bar.update(self._task, description=server_text(event.text), completed=event.share)
            # without a terminal there is no bar, so print each step as a line
            if self._bar.disable:
                self._bar.console.print(server_text(event.text), markup=False, highlight=False)
            return
        self._bar.console.print(f"  {server_text(event.text)}", markup=False, highlight=False)


async def _follow(
    api: ControlClient, operation_id: str, on_event: Callable[[OperationEvent], None]
) -> OperationView:
    async with contextlib.aclosing(api.operations.follow(operation_id)) as events:
        async for event in events:
            on_event(event)
    return await api.operations.get(operation_id)


def raise_failure(view: OperationView) -> None:
    """Raise the error of an operation that failed or was interrupted."""
    if view.status == "failed":
        raise from_envelope(
            ErrorEnvelope(code=view.error_code or "internal", message=view.error or _("It failed."))
        )
    if view.status == "interrupted":
        raise Unavailable(view.error or _("It was interrupted; start it again."))
