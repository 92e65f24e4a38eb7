"""The agents' logs below `$CHOIR_HOME/logs`: whatever an agent writes to standard error (spec 22.2).

Used by both adapters. What an agent says is stamped with its name and session here, cleaned by control's
redactor, and read no faster than a log needs, so that a runaway agent blocks itself and nobody else.
"""

from pathlib import Path

from choir_common.logs.file import LogFile
from choir_common.logs.limits import FileLimits
from choir_common.logs.pump import Clean, LineWriter
from choir_control.runtimes.port import LaunchSpec


class AgentLogs:
    """One log per agent, put away when its session ends; in parts before that if it is long."""

    def __init__(self, home: Path, clean: Clean = str) -> None:
        """Describe the logs of a home; `clean` is the redactor."""
        self._directory = home / "logs"
        self._clean = clean
        self._limits = FileLimits(home / "config.json")
        self._files: dict[str, LogFile] = {}

    def path(self, agent_id: str) -> Path:
        """Return where an agent's current log stands (spec 6.3)."""
        return self._directory / f"{agent_id}.log"

    def writer(self, spec: LaunchSpec) -> LineWriter:
        """Return what takes the output of one life of an agent. Raises OSError."""
        return self.writer_of(spec.agent_id, spec.session_id)

    def writer_of(self, agent_id: str, session_id: str) -> LineWriter:
        """Return what takes the output of an agent in a session. Raises OSError."""
        file = self._file(agent_id)
        file.open()
        return LineWriter(file, agent_id, self._clean, session_id)

    def put_away(self, agent_id: str) -> None:
        """Move an agent's log to the archive: its session is over."""
        self._file(agent_id).archive()

    def close(self) -> None:
        """Close all files; blocks until what is being compressed is."""
        for file in self._files.values():
            file.close()

    def _file(self, agent_id: str) -> LogFile:
        if agent_id not in self._files:
            self._files[agent_id] = LogFile(self._directory, agent_id, self._limits)
        return self._files[agent_id]
