"""Records of running agent processes, so that the next control process can find those left behind.

Files `$CHOIR_HOME/run/agents/<agent_id>.json`, without secrets. Used by `ProcessRuntime`.
"""

from collections.abc import Iterator
from pathlib import Path

import structlog
from pydantic import ValidationError

from choir_common.wire.model import AgentName, Wire
from choir_control.runtimes.process import process_table

log = structlog.get_logger()


class Record(Wire):
    """The process of one agent; `started` and `boot` distinguish it from a later one with its pid."""

    agent_id: AgentName
    session_id: str
    epoch: int
    pid: int
    started: int
    boot: str


class Records:
    """Store of the records of agent processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, agent_id: str, session_id: str, epoch: int, pid: int) -> None:
        """Record a process that was just started."""
        entry = process_table.find(pid)
        record = Record(
            agent_id=agent_id,
            session_id=session_id,
            epoch=epoch,
            pid=pid,
            started=entry.started if entry else 0,
            boot=process_table.boot_id(),
        )
        path = self._path(agent_id)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(record.model_dump_json())
        partial.replace(path)

    def remove(self, agent_id: str) -> None:
        """Remove the record of an agent's process."""
        self._path(agent_id).unlink(missing_ok=True)

    def left(self) -> Iterator[tuple[Path, Record | None]]:
        """Yield the path of every record with its content, or with None if it cannot be read."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                yield path, Record.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                log.warning("unreadable agent record", path=str(path), error=str(error))
                yield path, None

    def _path(self, agent_id: str) -> Path:
        return self._directory / f"{agent_id}.json"
