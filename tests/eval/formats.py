"""Readers for LoCoMo, BEAM and JSONL files, and for generated dialogues.

Questions without evidence in the data are dropped.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.eval.corpus import Question, Space, Unit
from tests.eval.dialogues import read_dialogues

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_SESSION = re.compile(r"session_(\d+)")
_REFERENCE = re.compile(r"D:?(\d+):(\d+)")
_TIMES = (
    "%I:%M %p on %d %B, %Y",
    "%d %B, %Y",
    "%B-%d-%Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
)


def read_locomo(path: Path) -> list[Space]:
    """Read conversations with numbered sessions and `qa`; a turn becomes `[date] Speaker: text [caption]`."""
    conversations = json.loads(path.read_text())
    if isinstance(conversations, dict):
        conversations = [conversations]
    return [
        _locomo_space(str(one.get("sample_id", number)), one)
        for number, one in enumerate(conversations)
    ]


def read_jsonl(path: Path) -> list[Space]:
    """Read units, one per line, and the questions in `FILE_PREFIX.questions`."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _lines(path):
        rows.setdefault(str(row["space"]), []).append(row)
    asked: dict[str, list[Question]] = {}
    for row in _lines(path.with_name(f"{path.name}.questions")):
        evidence = frozenset(map(str, row["evidence"]))
        question = Question(row["question"], evidence, str(row.get("category", "all")))
        asked.setdefault(str(row["space"]), []).append(question)
    return [_space(name, _jsonl_units(found), asked.get(name, ())) for name, found in rows.items()]


def read_beam(path: Path) -> list[Space]:
    """Read BEAM: rows with `chat` and `probing_questions` (JSON, JSONL), or a directory
    `<id>/chat.json`."""
    if path.is_dir():
        return [_beam_space(chat.parent.name, *_beam_files(chat)) for chat in _chats(path)]
    text = path.read_text()
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = rows if isinstance(rows, list) else [rows]
    return [
        _beam_space(str(row.get("conversation_id", at)), row["chat"], row["probing_questions"])
        for at, row in enumerate(rows)
    ]


FORMATS: Mapping[str, Callable[[Path], list[Space]]] = {
    "locomo": read_locomo,
    "beam": read_beam,
    "jsonl": read_jsonl,
    "dialogues": read_dialogues,
}


def detect_format(path: Path) -> str:
    """Return the most likely format of a file. Raises SystemExit if it is unknown."""
    if path.with_name(f"{path.name}.questions").exists():
        return "jsonl"
    if path.is_dir():
        return "dialogues" if any(path.glob("*.toml")) else "beam"
    beginning = path.read_text()[:2_000_000]
    for name, mark in (("locomo", '"qa"'), ("beam", "probing_questions"), ("locomo", "dia_id")):
        if mark in beginning:
            return name
    raise SystemExit(f"{path} is neither LoCoMo nor BEAM, and {path.name}.questions is missing.")


def parse_time(text: object) -> datetime | None:
    """Parse a timestamp in one of the formats of the data sets; return None if it has none of them."""
    if not isinstance(text, str) or not text.strip():
        return None
    written = text.strip()
    for shape in _TIMES:
        try:
            return datetime.strptime(written, shape).replace(tzinfo=UTC)
        except ValueError:
            continue
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def normalize_references(evidence: Iterable[object]) -> frozenset[str]:
    """Return LoCoMo's references in normal form: `D:11:26; D30:05` gives `D11:26` and `D30:5`."""
    found = (match for one in evidence for match in _REFERENCE.finditer(str(one)))
    return frozenset(f"D{int(match[1])}:{int(match[2])}" for match in found)


def _locomo_space(name: str, given: Mapping[str, Any]) -> Space:
    talk = given.get("conversation", given)
    numbers = sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key)))
    units: list[Unit] = []
    for number in numbers:
        date = talk.get(f"session_{number}_date_time", "")
        began = parse_time(date) or LONG_AGO + timedelta(days=number)
        for position, turn in enumerate(talk[f"session_{number}"]):
            caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"[{date}] {turn['speaker']}: {turn['text']}{caption}"
            (unit_id,) = normalize_references([turn["dia_id"]])
            at = began + timedelta(seconds=position)
            units.append(Unit(unit_id, text, at, turn["speaker"], str(number), position))
    questions = [
        Question(
            one["question"],
            normalize_references(one.get("evidence") or ()),
            str(one.get("category")),
        )
        for one in given.get("qa", ())
    ]
    return _space(name, units, questions)


def _jsonl_units(rows: Iterable[Mapping[str, Any]]) -> Iterator[Unit]:
    positions: dict[str, int] = {}
    for number, row in enumerate(rows):
        session = str(row.get("session") or "1")
        position = positions[session] = positions.get(session, -1) + 1
        written = row.get("at")
        at = parse_time(written) or LONG_AGO + timedelta(minutes=number)
        text, speaker = row["text"], row.get("speaker")
        if speaker and f"{speaker}:" not in text[:120]:
            text = f"[{written}] {speaker}: {text}" if written else f"{speaker}: {text}"
        yield Unit(str(row["id"]), text, at, speaker, session, position)


def _beam_space(name: str, chat: Any, questions: Any) -> Space:
    units: list[Unit] = []
    anchor = ""
    for session, batch in enumerate(_batches(chat)):
        for position, message in enumerate(_messages(batch)):
            anchor = message.get("time_anchor") or _anchor(batch) or anchor
            role = str(message["role"])
            began = parse_time(anchor) or LONG_AGO + timedelta(days=session)
            text = f"[{anchor}] {role}: {message['content']}"
            at = began + timedelta(seconds=position)
            units.append(Unit(str(message["id"]), text, at, role, str(session), position))
    return _space(name, units, list(_beam_questions(questions)))


def _batches(chat: Any) -> Iterator[Any]:
    """Yield the sessions (batches); the longest conversations nest them in plans."""
    for one in chat:
        plans = one if isinstance(one, dict) and "turns" not in one and "role" not in one else None
        if plans is not None:
            for plan in plans.values():
                yield from plan or ()
        else:
            yield one


def _messages(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, dict) and {"role", "id", "content"} <= node.keys():
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _messages(child)


def _anchor(batch: Any) -> str:
    return str(batch.get("time_anchor") or "") if isinstance(batch, dict) else ""


def _beam_questions(given: Any) -> Iterator[Question]:
    # the published data set stores them as a Python literal in a string
    groups = ast.literal_eval(given) if isinstance(given, str) else given
    for category, questions in groups.items():
        for one in questions:
            ids = frozenset(map(str, _numbers(one.get("source_chat_ids"))))
            yield Question(one["question"], ids, category)


def _numbers(node: Any) -> Iterator[int]:
    if isinstance(node, int):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _numbers(child)


def _chats(path: Path) -> list[Path]:
    """Return the file of each conversation; the truncated one if it exists."""
    whole = sorted(path.rglob("chat.json"))
    shortened = (chat.with_name("chat_trunecated.json") for chat in whole)
    return [short if short.exists() else chat for short, chat in zip(shortened, whole, strict=True)]


def _beam_files(chat: Path) -> tuple[Any, Any]:
    questions = next(chat.parent.rglob("probing_questions.json"))
    return json.loads(chat.read_text()), json.loads(questions.read_text())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        if line.strip():
            yield json.loads(line)


def _space(name: str, units: Iterable[Unit], questions: Iterable[Question]) -> Space:
    once = {unit.id: unit for unit in units}
    kept = [
        Question(one.text, one.evidence & once.keys(), one.category)
        for one in questions
        if one.text.strip() and one.evidence & once.keys()
    ]
    return Space(name, tuple(once.values()), tuple(kept))
