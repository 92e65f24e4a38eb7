"""Working memory (spec 11.3): one event window per lane, reference summaries, search over the log.

Pure: everything here is a fold of the log's events, so that a restart rebuilds it. Never calls a model and
never commits: that is `compaction`.
Ladder: working > window; snapshots > working; delta, seed, search, recalled and tokens stand alone.
"""
