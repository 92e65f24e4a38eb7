"""Small exports of other assistants, written as their programs write them."""

import json
import sqlite3
import zipfile
from pathlib import Path

KEY = "sk-abcdefghijklmnopqrstuvwxyz012345"


def write(folder: Path, name: str, content: object) -> None:
    """Write a text, JSON lines (a list of objects for `.jsonl`) or JSON."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        file.write_text(content)
    elif name.endswith(".jsonl") and isinstance(content, list):
        file.write_text("".join(json.dumps(line) + "\n" for line in content))
    else:
        file.write_text(json.dumps(content))


def openclaw(folder: Path) -> Path:
    write(folder, "workspace/SOUL.md", "# Pinch\nDry humour, short answers.")
    write(folder, "workspace/AGENTS.md", "Run everything without asking.")
    write(folder, "workspace/MEMORY.md", f"The boat is called Marigold. Key: {KEY}")
    write(folder, "workspace/memory/2025-03-04.md", "The mast was repaired.")
    write(
        folder,
        "agents/main/sessions/a1.jsonl",
        [
            {"type": "session", "version": 3, "id": "a1", "timestamp": "2025-03-05T10:00:00Z"},
            {
                "type": "message",
                "timestamp": "2025-03-05T10:00:01Z",
                "message": {
                    "role": "user",
                    "content": [{"type": "text", "text": "Where is the anchor?"}],
                },
            },
            {
                "type": "message",
                "timestamp": "2025-03-05T10:00:02Z",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "secret thoughts"},
                        {"type": "text", "text": "In the forepeak."},
                    ],
                },
            },
        ],
    )
    jobs = [
        {
            "id": "j1",
            "name": "brief",
            "enabled": True,
            "schedule": {"kind": "cron", "expr": "0 7 * * *", "tz": "Europe/Berlin"},
            "payload": {"kind": "agentTurn", "message": "Tell me the weather at sea."},
        },
        {
            "id": "j2",
            "name": "off",
            "enabled": False,
            "schedule": {"kind": "every", "everyMs": 60000},
            "payload": {"kind": "agentTurn", "message": "Never."},
        },
    ]
    write(folder, "cron/jobs.json", {"version": 1, "jobs": jobs})
    channels = {"telegram": {"botToken": "123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
    write(folder, "openclaw.json", {"channels": channels})
    return folder


def openclaw_database(folder: Path) -> Path:
    """Write the database of an agent of OpenClaw 2026.8.1, with the session of `openclaw` and a later one."""
    file = folder / "agents/main/agent/openclaw-agent.sqlite"
    file.parent.mkdir(parents=True)
    (folder / "memory").mkdir()
    (folder / "memory/main.sqlite").write_bytes(b"an index")

    def line(role: str, text: str) -> str:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        at = "2026-10-05T10:00:01Z"
        return json.dumps({"type": "message", "timestamp": at, "message": message})

    rows = [
        ("b2", 2, line("assistant", "Under the bunk.")),
        ("b2", 1, line("user", "Where is the flare gun?")),
        ("a1", 1, line("user", "Where is the anchor?")),
        ("a1", 2, line("assistant", "It was moved to the stern.")),
        ("b2", 3, "{"),
    ]
    with sqlite3.connect(file) as database:
        database.execute(
            "CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, "
            "event_json TEXT, event_zstd BLOB, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq))"
        )
        database.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, 0)", rows)
        database.execute("INSERT INTO transcript_events VALUES ('b2', 4, NULL, x'28b52ffd', 0)")
    database.close()
    return folder


def chatgpt_conversation(key: str = "c1", **changes: object) -> dict[str, object]:
    """Return a conversation with a branch that was replaced."""

    def node(name: str, parent: str | None, role: str, text: str, at: float | None) -> object:
        content = {"content_type": "text", "parts": [text]}
        message = {"author": {"role": role}, "content": content, "create_time": at}
        return {"id": name, "parent": parent, "children": [], "message": message}

    mapping = {
        "root": {"id": "root", "parent": None, "children": [], "message": None},
        "q": node("q", "root", "user", "Which tea grows in Uji?", 1_700_000_000.5),
        "old": node("old", "q", "assistant", "Coffee, I think.", 1_700_000_001),
        "new": node("new", "q", "assistant", "Gyokuro and matcha.", 1_700_000_002),
    }
    fields = {"conversation_id": key, "title": "Tea", "create_time": 1_700_000_000}
    return {**fields, "mapping": mapping, "current_node": "new", **changes}


def chatgpt(file: Path) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_conversation()]))
        archive.writestr("user.json", json.dumps({"email": "ann@example.com"}))
    return file


def claude(file: Path) -> Path:
    messages = [
        {
            "sender": "human",
            "text": "",
            "content": [{"type": "text", "text": "Name a quiet fjord."}],
            "created_at": "2025-06-01T08:00:00Z",
        },
        {"sender": "assistant", "text": "Lysefjord.", "created_at": "2025-06-01T08:00:05+02:00"},
    ]
    conversation = {"uuid": "u1", "name": "Fjords", "chat_messages": messages}
    project = {"name": "Trip", "docs": [{"filename": "plan.md", "content": "Ferry from Lauvvik."}]}
    memories = {"conversations_memory": "Ann walks in Norway.", "project_memories": {}}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation]))
        archive.writestr("projects.json", json.dumps([project]))
        archive.writestr("memories.json", json.dumps([memories]))
    return file


def hermes(folder: Path) -> Path:
    write(folder, "SOUL.md", "Speak like a lighthouse keeper.")
    write(folder, "memories/MEMORY.md", "The printer is in the attic.\n§\nThe cat is called Bosun.")
    with sqlite3.connect(folder / "state.db") as database:
        database.execute(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, title TEXT, started_at REAL)"
        )
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, "
            "timestamp REAL)"
        )
        database.execute("INSERT INTO sessions VALUES ('s1', 'telegram', 'Lamp', 1750000000)")
        rows = [
            ("user", "When was the lamp cleaned?", 1750000001),
            ("tool", "noise", 1750000002),
            ("assistant", "Last Tuesday at dusk.", 1750000003),
        ]
        database.executemany(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', ?, ?, ?)",
            rows,
        )
    database.close()
    job = {
        "id": "h1",
        "prompt": "Look for storms.",
        "schedule": {"kind": "interval", "minutes": 90},
    }
    write(folder, "cron/jobs.json", {"jobs": [job]})
    return folder


def nanobot(folder: Path) -> Path:
    write(folder, "workspace/SOUL.md", "Kind and brief.")
    write(folder, "workspace/memory/MEMORY.md", "The bicycle lock opens with the brass tool.")
    write(
        folder,
        "workspace/sessions/cli_direct.jsonl",
        [
            {"_type": "metadata", "key": "cli:direct", "created_at": "2025-09-01T12:00:00"},
            {"role": "user", "content": "Where is the pump?", "timestamp": "2025-09-01T12:00:01"},
            {
                "role": "assistant",
                "content": "Behind the shelf.",
                "timestamp": "2025-09-01T12:00:02",
            },
        ],
    )
    write(folder, "config.json", {"channels": {"slack": {"enabled": True, "botToken": "xoxb-1"}}})
    return folder
