-- How often a control process became the leader (docs/decisions/0115). One that lost its lock and got it back
-- continues only if nobody else has led meanwhile.
CREATE TABLE {schema}.leader_term (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    term     bigint NOT NULL
);
