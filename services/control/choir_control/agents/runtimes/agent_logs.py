"""Agent logs in `$CHOIR_HOME/logs`: everything an agent writes to its output.

Each line gets the agent's name and session and is cleaned by control's redactor. The read rate is
limited, so that an agent with runaway output blocks only itself.
"""

from pathlib import Path

from choir_common.logs.file import LogFile
from choir_common.logs.pump import LineWriter
from choir_common.logs.retention import LogLimitsReader
from choir_common.redactor import Redactor
from choir_control.agents.runtimes.port import LaunchSpec


class AgentLogs:
    """One log per agent, archived when its session ends, and rotated before that if it grows large."""

    def __init__(self, home: Path, redactor: Redactor | None = None) -> None:
        """Configure the logs of a home directory."""
        self._directory = home / "logs"
        self._redactor = redactor or Redactor()
        self._limits = LogLimitsReader(home / "config.json")
        self._files: dict[str, LogFile] = {}

    def path(self, agent_id: str) -> Path:
        """Return the path of an agent's current log."""
        return self._directory / f"{agent_id}.log"

    def writer(self, spec: LaunchSpec) -> LineWriter:
        """Return a writer for the output of an agent process. Raises OSError."""
        return self.session_writer(spec.agent_id, spec.session_id)

    def session_writer(self, agent_id: str, session_id: str) -> LineWriter:
        """Return a writer for the output of an agent in a session. Raises OSError."""
        file = self._file(agent_id)
        file.open()
        return LineWriter(file, agent_id, self._redactor, session=session_id)

    def archive(self, agent_id: str) -> None:
        """Move an agent's log to the archive, because its session is over."""
        self._file(agent_id).archive()

    def close(self) -> None:
        """Close all files; block until pending compression is done."""
        for file in self._files.values():
            file.close()

    def _file(self, agent_id: str) -> LogFile:
        if agent_id not in self._files:
            self._files[agent_id] = LogFile(self._directory, agent_id, self._limits)
        return self._files[agent_id]
