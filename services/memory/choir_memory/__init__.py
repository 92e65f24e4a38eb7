"""Long-term memory of agents: documents written on purpose or taken from sessions, and their search.

Owns one Postgres schema and role per agent (`choir_<agent_id>`) with its documents and vectors, the
search, and the queue that gives documents their vectors. Does not decide who may act (control
does), does not talk to agents (control sends their requests), and never waits for an embedding
before it acknowledges a write.

`migrations` contains SQL files only. Design: docs/design/memory.md.
"""

from choir_common.extras import installed_version

VERSION = installed_version()
