"""The embedded stack of Choir: Postgres, NATS, rehearsal model and services as child processes."""
