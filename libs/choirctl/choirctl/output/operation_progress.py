"""Start an operation, follow its progress, and show it. Used by the commands that build, update and reset.

Progress arrives over SSE; after a lost connection it is resumed from the last event received.
"""

import asyncio
import contextlib
from collections.abc import Callable

from pydantic import BaseModel
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from choir_client.failures import parse_response
from choir_common.errors import ErrorEnvelope, Unavailable, from_envelope
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operations import OperationEvent, OperationStarted, OperationView
from choirctl.api import operations
from choirctl.api.control import ControlClient
from choirctl.output.printing import stderr_console

SILENCE_S = 60.0  # the stream's keepalive comes every 15 s
RETRY_INTERVAL_S = 1.0
MAX_RECONNECTS = 10

OnEvent = Callable[[OperationEvent], None]


async def run_operation(
    api: ControlClient, place: Target, path: str, quiet: bool, body: BaseModel | None = None
) -> OperationView:
    """Start an operation with a POST to `path`, show its progress, and return its final state.

    With `quiet`, nothing is shown. Raises the errors of `follow_report` and `ControlClient.send`.
    """
    operation = parse_response(await api.connection.send("POST", path, body=body), OperationStarted)
    try:
        return await show_progress(api, place, operation.operation_id, quiet)
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
    api: ControlClient, place: Target, operation_id: str, quiet: bool = False
) -> OperationView:
    """Show an operation's progress on standard error unless `quiet`; return its final state."""
    if quiet:
        return await follow_operation(api, place, operation_id, lambda _: None)
    console = stderr_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        display = ProgressDisplay(bar, bar.add_task("", total=1.0))
        return await follow_operation(api, place, operation_id, display.show_event)


class ProgressDisplay:
    """Progress bar for an operation, with its log lines above."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def show_event(self, event: OperationEvent) -> None:
        """Show a progress event or log line."""
        if event.kind == "step":
            self._bar.update(self._task, description=event.text, completed=event.share)
            # without a terminal there is no bar, so print each step as a line
            if self._bar.disable:
                self._bar.console.print(event.text, markup=False, highlight=False)
            return
        self._bar.console.print(f"  {event.text}", markup=False, highlight=False)


async def follow_operation(
    api: ControlClient, place: Target, operation_id: str, on_event: OnEvent
) -> OperationView:
    """Pass each event of an operation to `on_event`; return its final state.

    Raises Unavailable if control cannot be reached after a lost stream, or if the stream breaks
    `MAX_RECONNECTS`
    times.
    """
    last_seq = 0
    for _attempt in range(MAX_RECONNECTS):
        try:
            stream = api.connection.events(
                operations.FOLLOW_OPERATION,
                {"operation_id": operation_id},
                last_id=last_seq,
                silence_s=SILENCE_S,
            )
            async with contextlib.aclosing(stream) as news:
                async for event in news:
                    if event is None:
                        continue
                    if event.event == "end":
                        return OperationView.model_validate_json(event.data)
                    progress = OperationEvent.model_validate_json(event.data)
                    last_seq = progress.seq
                    on_event(progress)
        except Unavailable:
            await asyncio.sleep(RETRY_INTERVAL_S)
        # the stream may have been lost after the operation ended
        view = await api.operations.get(operation_id)
        if view.status != "running":
            return view
    raise Unavailable(
        _(
            "{display_address} does not report the progress of {operation_id}. Try again: "
            "`choirctl operation show {operation_id}`."
        ).format(display_address=place.display_address, operation_id=operation_id)
    )


def raise_failure(view: OperationView) -> None:
    """Raise the error of an operation that failed or was interrupted."""
    if view.status == "failed":
        raise from_envelope(
            ErrorEnvelope(code=view.error_code or "internal", message=view.error or _("It failed."))
        )
    if view.status == "interrupted":
        raise Unavailable(view.error or _("It was interrupted; start it again."))
