"""The folders that collections follow, in `choir_memory.folders`."""

from dataclasses import dataclass

from choir_common.postgres.pool import Database, Record
from choir_common.wire.memory_collections import CollectionView, FolderProgress, FolderState

_FOLLOW = """
INSERT INTO choir_memory.folders AS f (agent_id, collection, path) VALUES ($1, $2, $3)
ON CONFLICT (agent_id, collection) DO UPDATE SET due_at = now()
WHERE f.path = excluded.path AND f.state <> 'removing'
RETURNING f.path
"""
# a repeated request tries again what could not be read
_RETRY = """
UPDATE choir_memory.folder_files SET state = 'waiting', digest = NULL
WHERE agent_id = $1 AND collection = $2 AND state = 'unreadable'
"""
_FIND = """
SELECT agent_id, collection, path, state FROM choir_memory.folders
WHERE agent_id = $1 AND collection = $2
"""
_LIST_DUE = """
SELECT agent_id, collection, path, state FROM choir_memory.folders
WHERE state IN ('reading', 'removing') OR due_at <= now() OR due_at > now() + make_interval(secs => $1)
ORDER BY due_at LIMIT 100
"""
_LIST = """
SELECT f.collection AS name, f.path, f.state, f.problem, f.scanned_at,
       count(i.id) FILTER (WHERE i.state <> 'missing') AS files,
       count(i.id) FILTER (WHERE i.state = 'waiting') AS waiting,
       count(i.id) FILTER (WHERE i.state = 'unreadable') AS unreadable,
       count(i.id) FILTER (WHERE i.chunks > 0) AS documents,
       coalesce(sum(i.chunks), 0) AS chunks
FROM choir_memory.folders f
LEFT JOIN choir_memory.folder_files i USING (agent_id, collection)
WHERE f.agent_id = $1 AND ($2::text IS NULL OR f.collection = $2)
GROUP BY f.agent_id, f.collection ORDER BY f.collection COLLATE "C"
"""
_SET_STATE = """
UPDATE choir_memory.folders SET state = $3, problem = $4, due_at = now() + make_interval(secs => $5)
WHERE agent_id = $1 AND collection = $2 AND state <> 'removing'
"""
_FINISH = """
UPDATE choir_memory.folders SET state = 'current', problem = '', scanned_at = now()
WHERE agent_id = $1 AND collection = $2 AND state = 'reading'
"""
_NOTE_PROBLEM = """
UPDATE choir_memory.folders SET problem = $3 WHERE agent_id = $1 AND collection = $2
"""
_REMOVE = """
UPDATE choir_memory.folders SET state = 'removing', problem = '', due_at = now()
WHERE agent_id = $1 AND collection = $2
"""
_DELETE = "DELETE FROM choir_memory.folders WHERE agent_id = $1 AND collection = $2"


@dataclass(frozen=True, slots=True)
class FollowedFolder:
    """A folder that a collection of an agent follows."""

    agent_id: str
    collection: str
    path: str
    state: FolderState


class FolderStore:
    """Statements on the followed folders, under the service's role."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def follow(self, agent_id: str, collection: str, path: str) -> bool:
        """Add a folder, or make its next scan due; return False if the collection follows another one."""
        async with self._database.transaction() as connection:
            followed = await connection.fetchval(_FOLLOW, agent_id, collection, path)
            await connection.execute(_RETRY, agent_id, collection)
        return followed is not None

    async def find(self, agent_id: str, collection: str) -> FollowedFolder | None:
        """Return the folder that a collection follows."""
        row = await self._database.fetchrow(_FIND, agent_id, collection)
        return None if row is None else _folder(row)

    async def list_due(self, longest_wait_s: float) -> list[FollowedFolder]:
        """Return folders with work to do; one due later than the longest wait is due because of a clock."""
        rows = await self._database.fetch(_LIST_DUE, longest_wait_s)
        return [_folder(row) for row in rows]

    async def list_views(self, agent_id: str, collection: str | None) -> list[CollectionView]:
        """Return an agent's collections that follow a folder, sorted by name."""
        rows = await self._database.fetch(_LIST, agent_id, collection)
        return [_view(row) for row in rows]

    async def set_state(
        self, folder: FollowedFolder, state: FolderState, *, problem: str = "", wait_s: float
    ) -> None:
        """Set the state of a folder, and when its next scan is due."""
        await self._database.execute(
            _SET_STATE, folder.agent_id, folder.collection, state, problem, wait_s
        )

    async def finish_scan(self, folder: FollowedFolder) -> None:
        """Record that the collection equals the folder, unless it is being removed."""
        await self._database.execute(_FINISH, folder.agent_id, folder.collection)

    async def note_problem(self, folder: FollowedFolder, problem: str) -> None:
        """Record why the work on a folder does not continue now."""
        await self._database.execute(_NOTE_PROBLEM, folder.agent_id, folder.collection, problem)

    async def start_removal(self, folder: FollowedFolder) -> None:
        """Have the documents of a folder erased."""
        await self._database.execute(_REMOVE, folder.agent_id, folder.collection)

    async def delete(self, folder: FollowedFolder) -> None:
        """Delete a folder and the records of its files."""
        await self._database.execute(_DELETE, folder.agent_id, folder.collection)


def _folder(row: Record) -> FollowedFolder:
    return FollowedFolder(row["agent_id"], row["collection"], row["path"], row["state"])


def _view(row: Record) -> CollectionView:
    fields = ("path", "state", "files", "waiting", "unreadable", "scanned_at", "problem")
    return CollectionView(
        name=row["name"],
        documents=row["documents"],
        chunks=row["chunks"],
        folder=FolderProgress(**{name: row[name] for name in fields}),
    )
