"""Working memory: one event window per lane, reference summaries, and search over the log.

Pure: everything here is a fold of the log's events, so a restart rebuilds it. Never calls a model;
compaction does that in `compaction`. See docs/design/memory.md.
"""
