-- The gateway process that works, of several (docs/decisions/0122). How long it may do so is in the leader's memory:
-- the next leader lets it ask again before another one works.
CREATE TABLE {schema}.gateway_lease (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance text NOT NULL,
    address  text NOT NULL
);
