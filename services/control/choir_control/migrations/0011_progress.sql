-- How far a message is that makes many of a channel's: another process goes on behind that.

ALTER TABLE {schema}.outbox ADD COLUMN parcels integer NOT NULL DEFAULT 0;
