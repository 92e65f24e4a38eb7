-- A work of a conversation may be seen there as one message that is edited in place (spec 19.7).

ALTER TABLE {schema}.operations ADD COLUMN has_card boolean NOT NULL DEFAULT false;
