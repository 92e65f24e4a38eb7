-- A folder that a collection follows. `due_at` is when its next scan is due.
CREATE TABLE {schema}.folders (
    agent_id   text NOT NULL,
    collection text NOT NULL,
    path       text NOT NULL,
    state      text NOT NULL DEFAULT 'waiting' CHECK (
        state IN ('waiting', 'reading', 'current', 'unreachable', 'removing')),
    problem    text NOT NULL DEFAULT '',
    made_at    timestamptz NOT NULL DEFAULT now(),
    scanned_at timestamptz,
    due_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_id, collection)
);
CREATE INDEX folders_due ON {schema}.folders (due_at);

-- Its files, as they were when they were read last. `missing`: no longer there; another file with the same content takes
-- over the document, otherwise it is erased. The document's pieces have `chunks` positions from `first_chunk`.
CREATE TABLE {schema}.folder_files (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    agent_id    text NOT NULL,
    collection  text NOT NULL,
    -- below the folder; sorted by bytes, so that pages of the list do not depend on a locale
    path        text COLLATE "C" NOT NULL,
    size        bigint NOT NULL,
    modified_ns bigint NOT NULL,
    state       text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'stored', 'unreadable', 'missing')),
    digest      text,
    problem     text NOT NULL DEFAULT '',
    first_chunk int NOT NULL DEFAULT 0,
    chunks      int NOT NULL DEFAULT 0,
    characters  int NOT NULL DEFAULT 0,
    read_at     timestamptz,
    -- version of the reader; files that an older one read are read again
    reader      int NOT NULL DEFAULT 0,
    UNIQUE (agent_id, collection, path),
    FOREIGN KEY (agent_id, collection) REFERENCES {schema}.folders ON DELETE CASCADE
);
CREATE INDEX folder_files_waiting ON {schema}.folder_files (agent_id, collection, path) WHERE state = 'waiting';
CREATE INDEX folder_files_missing ON {schema}.folder_files (agent_id, collection, path) WHERE state = 'missing';
CREATE INDEX folder_files_moved ON {schema}.folder_files (agent_id, collection, digest) WHERE state = 'missing';
