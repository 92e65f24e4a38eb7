-- Hosts that a call asks for because they are new to its agent, and hosts that a user's message names.
ALTER TABLE {schema}.pending_approvals ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
ALTER TABLE {schema}.grants ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
ALTER TABLE {schema}.inbox ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
CREATE INDEX inbox_with_hosts ON {schema}.inbox (dm) WHERE hosts <> '{}';
