"""Event window of a lane: the turns and steps that its prompts consist of.

Only a `memory_compacted` event removes events, so the prompt's prefix keeps its bytes, which providers'
prefix caches depend on.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import orjson

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.working_memory.token_estimator import PICTURE_SIZE
from choir_common.lanes import is_edge
from choir_common.wire.attachments import AttachmentText, is_picture
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    AttachmentsRead,
    CoreStarted,
    InjectedInstruction,
    ModelOutput,
    NoteKind,
    PictureDescribed,
    RemindersAdded,
    Reply,
    ReportBegun,
    SkillStopped,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.memory_recall import Reminder
from choir_common.wire.speakers import format_speaker

MESSAGE_OVERHEAD = 60
"""Bytes of a message besides its text."""
MASKED_RESULT_SIZE = 300


@dataclass(slots=True)
class WindowStep:
    """A model output, the results of its calls, and other events up to the next output."""

    events: list[CommittedEvent] = field(default_factory=list)
    size: int = 0

    @property
    def last_rev(self) -> int:
        """Revision of the newest event."""
        return max(event.rev for event in self.events)

    def append(self, event: CommittedEvent) -> None:
        """Add an event."""
        self.events.append(event)
        self.size += event_size(event)


@dataclass(frozen=True, slots=True)
class HeadNotes:
    """What Choir adds to a message in prompts; it stays with the message until the turn rolls off."""

    reminders: tuple[Reminder, ...] = ()
    """Memory's reminders."""
    collections: tuple[str, ...] = ()
    """Collections that are named because they have documents about the message."""
    texts: tuple[AttachmentText, ...] = ()
    """Texts of the message's files."""
    descriptions: tuple[PictureDescribed, ...] = ()
    """Descriptions of the message's pictures."""

    @property
    def size(self) -> int:
        """Approximate bytes in a prompt."""
        texts = (
            *(reminder.text for reminder in self.reminders),
            *(text.text for text in self.texts),
            *(description.text for description in self.descriptions),
        )
        return sum(MESSAGE_OVERHEAD + len(text.encode()) for text in texts)


@dataclass(slots=True)
class WindowTurn:
    """The start of a turn and its steps; a core job is one turn."""

    turn_id: str
    head: CommittedEvent
    steps: list[WindowStep] = field(default_factory=list)
    answered: bool = False
    notes: HeadNotes = HeadNotes()
    head_size: int = field(init=False)
    """Approximate bytes of the head and its notes."""

    def __post_init__(self) -> None:
        self.attach_notes(self.notes)

    def attach_notes(self, notes: HeadNotes) -> None:
        """Set the notes of the head, and measure both: each event asks for the sizes of all turns."""
        self.notes = notes
        self.head_size = event_size(self.head) + notes.size

    @property
    def size(self) -> int:
        """Approximate bytes in a prompt."""
        return self.head_size + sum(step.size for step in self.steps)

    def has_attachment(self, path: str) -> bool:
        """Return whether the turn's message came with the file at this path."""
        head = self.head.payload
        return isinstance(head, UserMessageStarted) and any(
            file.path == path for file in head.attachments
        )

    @property
    def count(self) -> int:
        """Number of events."""
        return 1 + sum(len(step.events) for step in self.steps)

    @property
    def last_rev(self) -> int:
        """Revision of the newest event."""
        return self.steps[-1].last_rev if self.steps else self.head.rev


@dataclass(frozen=True, slots=True)
class WindowPiece:
    """A part of the window that can roll off, together with everything before it."""

    last_rev: int
    count: int
    size: int


class LaneWindow:
    """The newest turns of a lane, oldest first."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.turns: deque[WindowTurn] = deque()
        self.through_rev = 0
        """Events up to this revision have rolled off."""
        self.parked: set[str] = set()
        """Ids of turns that wait for a human."""

    def park(self, turn_id: str) -> None:
        """Retain a parked turn, whatever follows it."""
        self.parked.add(turn_id)

    def unpark(self, turn_id: str) -> None:
        """Move a parked turn to the end, because the model resumes it."""
        self.parked.discard(turn_id)
        turn = next((turn for turn in self.turns if turn.turn_id == turn_id), None)
        if turn is not None:
            self.turns.remove(turn)
            self.turns.append(turn)

    def start_turn(self, turn_id: str, head: CommittedEvent) -> None:
        """Start a turn with the event that requests it."""
        self.turns.append(WindowTurn(turn_id, head))

    def attach_notes(self, payload: RemindersAdded | AttachmentsRead | PictureDescribed) -> None:
        """Attach what Choir found out about a message to the head of its turn."""
        for turn in self.turns:
            if turn.turn_id != payload.turn_id:
                continue
            notes = turn.notes
            match payload:
                case RemindersAdded(reminders=reminders, collections=collections):
                    notes = replace(notes, reminders=reminders, collections=collections)
                case AttachmentsRead(texts=texts):
                    notes = replace(notes, texts=texts)
                case PictureDescribed():
                    notes = replace(notes, descriptions=(*notes.descriptions, payload))
            turn.attach_notes(notes)

    def find_turn(self, turn_id: str | None) -> WindowTurn | None:
        """Return the turn with that id, or None."""
        return next((turn for turn in reversed(self.turns) if turn.turn_id == turn_id), None)

    def add_event(self, turn_id: str | None, event: CommittedEvent) -> None:
        """Add an event to its turn; ignore it if the turn began before the tail."""
        turn = self.find_turn(turn_id)
        if turn is None:
            return
        payload = event.payload
        if isinstance(payload, Reply) and not payload.from_lane:
            turn.answered = turn.answered or payload.kind == "answer"
            if payload.kind in NON_CLOSING_KINDS or _repeats(turn, payload):
                return
        unread: list[CommittedEvent] = []
        if isinstance(payload, ModelOutput):
            unread = _take_unread(turn, payload.read_rev)
            turn.steps.append(WindowStep())
        elif not turn.steps:
            turn.steps.append(WindowStep())
        for follows in (event, *unread):
            turn.steps[-1].append(follows)

    def add_message_from_elsewhere(self, event: CommittedEvent) -> None:
        """Add a message that another lane of the agent has sent to this conversation."""
        if self.turns:
            self.add_event(self.turns[-1].turn_id, event)
        else:
            self.start_turn(f"sent:{event.rev}", event)

    def roll_off(self, through_rev: int) -> None:
        """Remove the events up to `through_rev`, except those that must stay."""
        if through_rev <= self.through_rev:
            return
        self.through_rev = through_rev
        fixed = self._fixed_turn_ids()
        remaining: deque[WindowTurn] = deque()
        for turn in self.turns:
            is_kept = turn.turn_id in fixed
            last = turn.steps[-1] if turn.steps and is_kept else None
            turn.steps = [
                step for step in turn.steps if step is last or step.last_rev > through_rev
            ]
            if is_kept or turn.steps or turn.head.rev > through_rev:
                remaining.append(turn)
        self.turns = remaining

    def removable_pieces(self) -> Iterator[WindowPiece]:
        """Yield what may roll off at any time: whole old turns, or old steps of a core job."""
        if not is_edge(self.lane):
            yield from self._steps_of(self.turns)
            return
        fixed = self._fixed_turn_ids()
        for turn in self.turns:
            if turn.turn_id not in fixed:
                yield WindowPiece(turn.last_rev, turn.count, turn.size)

    def last_resort_pieces(self) -> Iterator[WindowPiece]:
        """Yield what rolls off only if space runs out: steps of turns that are otherwise retained."""
        if is_edge(self.lane):
            fixed = self._fixed_turn_ids()
            yield from self._steps_of([turn for turn in self.turns if turn.turn_id in fixed])

    def events(self, through_rev: int) -> Iterator[CommittedEvent]:
        """Yield the events up to `through_rev`, in prompt order."""
        for turn in self.turns:
            # A job's briefing is never folded.
            if turn.head.rev <= through_rev and not isinstance(turn.head.payload, CoreStarted):
                yield turn.head
            for step in turn.steps:
                yield from (event for event in step.events if event.rev <= through_rev)

    def last_notes(self) -> dict[NoteKind, tuple[int, str]]:
        """Return the last note of each kind in prompt order: the revision of its output, and its text."""
        return {
            note.kind: (event.rev, note.text)
            for turn in self.turns
            for step in turn.steps
            for event in step.events
            if isinstance(event.payload, ModelOutput)
            for note in event.payload.notes
        }

    @property
    def head_notes(self) -> dict[int, HeadNotes]:
        """What Choir added to the heads of turns, by their revisions."""
        return {turn.head.rev: turn.notes for turn in self.turns}

    @property
    def count(self) -> int:
        """Number of events in the window."""
        return sum(turn.count for turn in self.turns)

    @property
    def size(self) -> int:
        """Approximate bytes of all compactable content."""
        total = sum(turn.size for turn in self.turns)
        return total - sum(turn.head_size for turn in self.turns if self._is_fixed(turn))

    @property
    def reminder_document_ids(self) -> tuple[str, ...]:
        """Ids of the memory documents that the window's prompts show, oldest first."""
        return tuple(
            reminder.document_id for turn in self.turns for reminder in turn.notes.reminders
        )

    @property
    def named_collections(self) -> frozenset[str]:
        """Collections that the window's prompts name."""
        return frozenset(name for turn in self.turns for name in turn.notes.collections)

    def contains_text(self, text: str) -> bool:
        """Return whether a message or output in the window contains this text."""
        heads = (turn.head.payload for turn in self.turns)
        done = (
            event.payload for turn in self.turns for step in turn.steps for event in step.events
        )
        return any(
            isinstance(payload, UserMessageStarted | ModelOutput | Reply)
            and text.strip() in payload.text
            for payload in (*heads, *done)
        )

    @property
    def first_rev(self) -> int | None:
        """Revision of the oldest event that is needed to rebuild this window."""
        # A job's briefing is part of the state, so only its steps are needed.
        revs = (
            turn.head.rev if is_edge(self.lane) else turn.steps[0].events[0].rev
            for turn in self.turns
            if is_edge(self.lane) or turn.steps
        )
        return min(revs, default=None)

    def _fixed_turn_ids(self) -> frozenset[str]:
        """Return the turns that must stay with their head and last step.

        They are the newest turn, the newest message, the newest answer, and parked turns.
        """
        newest = self.turns[-1].turn_id if self.turns else ""
        question = next(
            (t for t in reversed(self.turns) if isinstance(t.head.payload, UserMessageStarted)),
            None,
        )
        answer = next((turn for turn in reversed(self.turns) if turn.answered), None)
        fixed = {newest, *(turn.turn_id for turn in (question, answer) if turn)}
        return frozenset(fixed | self.parked)

    def _is_fixed(self, turn: WindowTurn) -> bool:
        return not is_edge(self.lane) or turn is self.turns[-1]

    def _steps_of(self, turns: "deque[WindowTurn] | list[WindowTurn]") -> Iterator[WindowPiece]:
        fixed = self._fixed_turn_ids()
        for turn in turns:
            steps = turn.steps[:-1] if turn.turn_id in fixed else turn.steps
            for step in steps:
                yield WindowPiece(step.last_rev, len(step.events), step.size)


def _take_unread(turn: WindowTurn, read_rev: int) -> list[CommittedEvent]:
    """Remove what was said during the model call, so that it follows the output as news."""
    if not read_rev or not turn.steps:
        return []
    step = turn.steps[-1]
    unread = [
        event
        for event in step.events
        if event.rev > read_rev
        and (
            isinstance(event.payload, InjectedInstruction | SkillStopped)
            or is_from_elsewhere(event)
        )
    ]
    if unread:
        step.events = [event for event in step.events if event not in unread]
        step.size -= sum(map(event_size, unread))
    if not step.events:
        turn.steps.pop()
    return unread


def is_from_elsewhere(event: CommittedEvent) -> bool:
    """Return whether an event is a message that another lane has sent to this conversation."""
    return isinstance(event.payload, Reply) and bool(event.payload.from_lane)


def _repeats(turn: WindowTurn, reply: Reply) -> bool:
    """Return whether the reply only repeats the model's last text."""
    outputs = [event.payload for event in turn.steps[-1].events] if turn.steps else []
    return any(isinstance(p, ModelOutput) and p.text == reply.text for p in outputs)


def event_size(event: CommittedEvent) -> int:
    """Return the approximate bytes of an event in a prompt."""
    match event.payload:
        case UserMessageStarted() as message:
            # Each file is a line with its name, kind and path.
            files = sum(
                MESSAGE_OVERHEAD + len(f.name) + len(f.path) + PICTURE_SIZE * is_picture(f)
                for f in message.attachments
            )
            mark = "" if message.wake_up is None else message.wake_up.summary
            head = message.sent + format_speaker(message.speaker)
            texts = (head, mark, message.text, message.reply_to, message.corrects)
            size = len("".join(texts).encode()) + files
        case InjectedInstruction(text=text, sent=sent, speaker=speaker):
            size = len(f"{sent}{format_speaker(speaker)}{text}".encode())
        case Reply(text=text):
            size = len(text.encode())
        case ReportBegun(brief=text):
            size = len(text.encode())
        case ModelOutput(text=text, tool_calls=calls, provider_fields=fields, notes=notes):
            inputs = sum(MESSAGE_OVERHEAD + len(call.arguments.encode()) for call in calls)
            inputs += sum(MESSAGE_OVERHEAD + len(note.text.encode()) for note in notes)
            fields_size = len(fields.model_dump_json()) if fields is not None else 0
            size = len(text.encode()) + inputs + fields_size
        case ToolResultCommitted(masked=True):
            size = MASKED_RESULT_SIZE
        case ToolResultCommitted(output=output, pictures=pictures):
            size = len(orjson.dumps(output)) + PICTURE_SIZE * len(pictures)
        case PictureDescribed(text=text):
            size = len(text.encode())
        case _:
            size = 0
    return size + MESSAGE_OVERHEAD
