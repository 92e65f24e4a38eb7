-- Questions of agents to other agents (docs/decisions/0105). Their texts are in the inbox and the logs.
CREATE TABLE {schema}.agent_questions (
    question_id       text PRIMARY KEY,
    asking_agent      text NOT NULL,
    asking_session    text NOT NULL,
    call_id           text NOT NULL,
    answering_agent   text NOT NULL,
    dm                text NOT NULL,              -- of the pair
    gateway           text NOT NULL,              -- with question_id, the key of the message in the inbox
    askers            text[] NOT NULL,            -- the agents that asked one another, the asking one last
    first_question    text NOT NULL,              -- from which all of them follow
    asked_at          timestamptz NOT NULL,
    deadline_at       timestamptz NOT NULL,
    state             text NOT NULL DEFAULT 'open'
                      CHECK (state IN ('open', 'answered', 'failed', 'cancelled', 'expired')),
    ended_at          timestamptz,
    turn_ended        boolean NOT NULL DEFAULT false, -- nobody works on it any more
    UNIQUE (asking_session, call_id)
);
CREATE INDEX agent_questions_by_agent ON {schema}.agent_questions (asking_agent, asked_at);
CREATE INDEX agent_questions_by_dm ON {schema}.agent_questions (dm, asked_at);
CREATE INDEX agent_questions_unsettled ON {schema}.agent_questions (deadline_at) WHERE NOT turn_ended;
CREATE INDEX agent_questions_ended ON {schema}.agent_questions (ended_at) WHERE ended_at IS NOT NULL;
