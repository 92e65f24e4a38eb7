"""The session archive with its real collaborators, for tests that need no service around it."""

from choir_common.clock import SystemClock
from choir_common.postgres.pool import Database
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.schema.store import SpaceRegistry
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.promotion import SessionPromoter
from choir_memory.summaries.episodes import EpisodeWriter
from choir_memory.tool_errors.service import ToolErrorService


def make_session_archive(
    database: Database, spaces: SpaceRegistry, queue: EmbeddingQueue
) -> SessionArchive:
    """Build the archive over an open database."""
    return SessionArchive(
        database=database,
        spaces=spaces,
        promotion=SessionPromoter(database, queue),
        queue=queue,
        failures=ToolErrorService(database, spaces, SystemClock()),
        episodes=EpisodeWriter(),
    )
