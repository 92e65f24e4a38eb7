"""What an export contains and what is left out of an import: counts, dates and reasons."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from choir_common.wire.memory_records import ArchivedSessionRecord, KnowledgeRecord, Record
from choir_common.wire.memory_records import SessionRecord as UnitRecord
from choirctl.imports.items import (
    Channel,
    Conversation,
    Item,
    Memory,
    Omission,
    Persona,
    ScheduleItem,
)
from choirctl.imports.memory_records import conversation_records, memory_records

MAX_OMISSIONS = 1_000
"""Omissions that are listed; more are only counted."""


@dataclass(slots=True)
class ImportReport:
    """The content of an export; conversations and memories are counted, not stored."""

    source: str
    counts: Counter[str] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None
    omissions: list[Omission] = field(default_factory=list)
    personas: list[Persona] = field(default_factory=list)
    schedules: list[ScheduleItem] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    records: int = 0
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def import_id(self) -> str:
        """Return an id that is the same for the same content."""
        return f"{self.source}-{self._digest.hexdigest()[:32]}"

    def add(self, item: Item, default_at: datetime) -> list[Record]:
        """Count an item, and return its records for memory."""
        match item:
            case Omission():
                self._omit([item])
            case Persona():
                self.personas.append(item)
                self.counts["persona"] += 1
            case ScheduleItem():
                self.schedules.append(item)
                self.counts["schedules"] += 1
            case Channel():
                if item.name not in self.channels:
                    self.channels.append(item.name)
                    self.counts["channels"] += 1
            case Memory():
                self.counts["memories"] += 1
                return self._count(memory_records(item, self.source, default_at))
            case Conversation():
                records, omissions = conversation_records(item, self.source)
                self._omit(omissions)
                self.counts["conversations"] += bool(records)
                self.counts["messages"] += len(item.messages) if records else 0
                return self._count(records)
        return []

    def figures(self) -> dict[str, object]:
        """Return the report for --json."""
        return {
            "source": self.source,
            "found": dict(self.counts),
            "first": self.first.isoformat() if self.first else None,
            "last": self.last.isoformat() if self.last else None,
            "left_out": self.counts["left out"],
            "omissions": [{"place": it.place, "reason": it.reason} for it in self.omissions],
            "channels": self.channels,
            "persona": [{"name": it.name, "text": it.text} for it in self.personas],
        }

    def _omit(self, omissions: Iterable[Omission]) -> None:
        for omission in omissions:
            self.counts["left out"] += 1
            if len(self.omissions) < MAX_OMISSIONS:
                self.omissions.append(omission)

    def _count(self, records: list[Record]) -> list[Record]:
        self.records += len(records)
        for record in records:
            match record:
                case UnitRecord() | KnowledgeRecord():
                    self._digest.update(record.id.encode())
                    at = record.happened_at or record.created_at
                    self.first = min(self.first or at, at)
                    self.last = max(self.last or at, at)
                case ArchivedSessionRecord():
                    self._digest.update(record.session_id.encode())
                case _:
                    pass
        return records
