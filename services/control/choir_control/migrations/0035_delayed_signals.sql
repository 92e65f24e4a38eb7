-- Whether a stream has passed by a signal that waits for the files of a message of its conversation.
ALTER TABLE {schema}.signals ADD COLUMN delayed boolean NOT NULL DEFAULT false;
