-- The people whose memory is kept apart, each with the own conversations; empty: all is shared. Control sends them with
-- the sessions; facts and time summaries are made for each of them.
ALTER TABLE {schema}.spaces ADD COLUMN readers jsonb NOT NULL DEFAULT '[]';
