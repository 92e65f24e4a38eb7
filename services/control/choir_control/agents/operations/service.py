"""Background execution of operations, with progress and outcome."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError, Conflict, NotFound, RateLimited, Unavailable
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import KEEPALIVE, KEEPALIVE_S, render_event
from choir_common.i18n import ENGLISH, Message, _, join, translate
from choir_common.ids import new_id
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.operations import OperationStatus, OperationView
from choir_control.agents.operations.progress import CardPublisher, OperationProgress, ProgressCard
from choir_control.agents.operations.store import OperationStore, Requester
from choir_control.log.signals.notifier import OutboxRescanner

log = structlog.get_logger("choir.operations")

MAX_RUNNING = 16
MAX_KNOWN = 64
OperationWork = Callable[[OperationProgress], Awaitable[WireModel | None]]


class OperationFailed(ChoirError):
    """The operation completed with a result that counts as a failure."""

    code = "work_failed"

    def __init__(self, message: str, result: WireModel) -> None:
        super().__init__(message)
        self.result = result


@dataclass(slots=True)
class _RunningOperation:
    operation_id: str
    kind: str
    subject: str
    progress: OperationProgress
    exclusive: frozenset[str]
    card: ProgressCard | None
    language: str = ENGLISH
    """That of the conversation that is told the outcome."""


class OperationService:
    """Service that runs operations, and reads those of earlier choird processes."""

    def __init__(
        self, *, store: OperationStore, outbox: OutboxRescanner, cards: CardPublisher
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._cards = cards
        self._tasks: asyncio.TaskGroup | None = None
        self._operations: OrderedDict[str, _RunningOperation] = OrderedDict()

    async def put_in_order(self) -> None:
        """Mark the operations of an earlier choird as interrupted, before any request arrives."""
        interrupted = await self._store.mark_interrupted()
        if interrupted:
            log.warning("operations were interrupted by the end of choird", works=len(interrupted))
        for cut in interrupted:
            if cut.dm is not None and cut.has_card:
                self._make_card(cut.dm, cut.operation_id, cut.kind).cut()

    async def run(self) -> None:
        """Run the operations until cancelled; they are cancelled, too."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            # ends the progress streams, which would otherwise stay open
            for operation in self._operations.values():
                operation.progress.end(_("choird is stopping"))

    async def begin(
        self,
        kind: str,
        subject: str,
        exclusive: frozenset[str],
        work: OperationWork,
        asker: Requester | None = None,
        *,
        has_card: bool = False,
    ) -> str:
        """Start an operation and return its id; it runs exclusively for the subjects in `exclusive`.

        The conversation `asker` is notified of the end, also if choird ends before, and sees a card if
        `has_card`.

        Raises Conflict while another operation has one of the subjects, RateLimited while too many run, and
        Unavailable during startup.
        """
        if self._tasks is None:
            raise Unavailable(_("choird is still starting; try again in a moment."))
        running = [
            operation for operation in self._operations.values() if not operation.progress.over
        ]
        for other in running:
            if conflicts := other.exclusive & exclusive:
                raise Conflict(_conflict_text(other, conflicts))
        if len(running) >= MAX_RUNNING:
            raise RateLimited(
                _("{len} operations are running; wait for one to end.").format(len=len(running))
            )
        operation_id = new_id("op")
        # registered before the row is written, so that no equal operation can start meanwhile
        card = self._make_card(asker.dm, operation_id, kind) if asker and has_card else None
        progress = OperationProgress(card)
        language = asker.language if asker else ENGLISH
        operation = _RunningOperation(
            operation_id, kind, subject, progress, exclusive, card, language
        )
        self._operations[operation_id] = operation
        try:
            await self._store.insert(operation_id, kind, subject, asker, has_card=has_card)
        except BaseException:
            del self._operations[operation_id]
            raise
        self._tasks.create_task(self._do(operation, work), name=f"{kind} {subject}")
        self._forget_old()
        return operation_id

    async def wait_or_notify_later(
        self, operation_id: str, within_s: float, asker: Requester
    ) -> OperationView | None:
        """Return the outcome if it comes within `within_s` seconds, else None; `asker` then gets it later."""
        operation = self._operations.get(operation_id)
        if operation is not None:
            operation.language = asker.language
            try:
                async with asyncio.timeout(within_s):
                    await operation.progress.wait_finished()
            except TimeoutError:
                # False if the operation ended meanwhile: its outcome is then returned below
                if await self._store.set_requester(operation_id, asker):
                    return None
        return await self.get(operation_id)

    async def get(self, operation_id: str) -> OperationView:
        """Return an operation's status; raises NotFound."""
        view = await self._store.get(operation_id)
        if view is None:
            raise NotFound(_("There is no operation {id!r}.").format(id=operation_id[:80]))
        return self._with_progress(view)

    async def page(self, before: str | None, limit: int) -> list[OperationView]:
        """Return a page of operations, newest first."""
        return [self._with_progress(view) for view in await self._store.list_page(before, limit)]

    async def follow(self, operation_id: str, after: int) -> AsyncGenerator[bytes]:
        """Stream an operation's progress as server-sent events, ending with `end`; raises
        NotFound."""
        await self.get(operation_id)
        running = self._operations.get(operation_id)
        if running is not None:
            async for event in running.progress.follow(after, KEEPALIVE_S):
                if event is None:
                    yield KEEPALIVE
                elif event.kind != "end":
                    text = event.model_dump_json()
                    yield render_event(ServerSentEvent(str(event.seq), event.kind, text))
                    after = event.seq
        view = await self.get(operation_id)
        yield render_event(ServerSentEvent(str(after + 1), "end", view.model_dump_json()))

    def _with_progress(self, view: OperationView) -> OperationView:
        operation = self._operations.get(view.operation_id)
        if operation is None or view.status != "running":
            return view
        update = {"step": operation.progress.at, "share": operation.progress.share}
        return view.model_copy(update=update)

    async def _do(self, operation: _RunningOperation, work: OperationWork) -> None:
        status: OperationStatus = "failed"
        error: tuple[str, str] | None = None
        result: WireModel | None = None
        try:
            result, status = await work(operation.progress), "succeeded"
        except OperationFailed as failed:
            error, result = (failed.code, failed.message), failed.result
        except ChoirError as failed:
            error = (failed.code, failed.message)
        except Exception:  # the outermost handler of this operation: the others continue
            log.exception("operation failed", kind=operation.kind, subject=operation.subject)
            error = (ChoirError.code, _("Internal error; see choird's log."))
        summary = error[1] if error else operation.progress.outcome or operation.progress.at
        plain: JsonObject | None = result.model_dump(mode="json") if result else None
        await self._store_outcome(operation, status, error, plain)
        log.info("operation ended", kind=operation.kind, subject=operation.subject, status=status)
        if operation.card is not None:
            operation.card.end(well=error is None)
        operation.progress.end(summary)

    async def _store_outcome(
        self,
        running: _RunningOperation,
        status: OperationStatus,
        error: tuple[str, str] | None,
        result: JsonObject | None,
    ) -> None:
        operation_id, at = running.operation_id, running.progress.outcome or running.progress.at
        result_text = error[1] if error else at or status
        message = join(": ", (_subject_text(running.kind, running.subject), result_text))
        text = translate(message, running.language)
        try:
            dm = await self._store.store_outcome(operation_id, status, at, error, result, text)
            if dm is not None:
                self._outbox.rescan(dm)
        except Unavailable as away:
            # harmless: the next startup marks it as interrupted and asks for a new attempt
            log.warning("operation outcome not stored", id=operation_id, error=away.message)

    def _make_card(self, dm: str, operation_id: str, kind: str) -> ProgressCard:
        return ProgressCard(self._cards, dm=dm, operation_id=operation_id, kind=kind)

    def _forget_old(self) -> None:
        finished_ids = [
            name for name, operation in self._operations.items() if operation.progress.over
        ]
        for operation_id in finished_ids:
            if len(self._operations) <= MAX_KNOWN:
                return
            del self._operations[operation_id]


KINDS: dict[str, Message] = {
    "agent build": _("agent build of {subject}"),
    "agent forget": _("agent forget of {subject}"),
    "agent restart": _("agent restart of {subject}"),
    "agent start": _("agent start of {subject}"),
    "agent stop": _("agent stop of {subject}"),
    "agent update": _("agent update of {subject}"),
    "agent update-all": _("agent update-all of {subject}"),
    "config load": _("config load of {subject}"),
    "forget": _("forget of {subject}"),
    "memory mode": _("memory mode of {subject}"),
    "workspace reset": _("workspace reset of {subject}"),
}
"""Operations that conversations can start."""


def _conflict_text(other: _RunningOperation, subjects: frozenset[str]) -> Message:
    return _("{subjects}: {kind} {subject} is running ({id}). Wait until it ends.").format(
        subjects=", ".join(sorted(subjects)),
        kind=other.kind,
        subject=other.subject,
        id=other.operation_id,
    )


def _subject_text(kind: str, subject: str) -> str:
    text = KINDS.get(kind)
    return f"{kind} of {subject}" if text is None else text.format(subject=subject)
