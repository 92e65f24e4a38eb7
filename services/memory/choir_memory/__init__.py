"""Choir's memory: what an agent knows and lived through, stored for good and found again (spec 11).

Owns one Postgres schema and role per agent (`choir_<agent_id>`), their documents, vectors and search,
and the queue that gives documents their vectors. Never decides who may act, never talks to an agent
(control asks on its behalf), and never waits for an embedding before it acknowledges a write.

    __main__
    app                   builds all, opens in order, closes in reverse
    endpoints | health    the two doors: the bus, and /livez and /readyz
    operator              what an operator sees and does, all of it audited
    grains                summaries of days to years, and what is kept no longer; the rounds
    layers                what is derived or brought; the service's own language model
    knowledge | sessions | search    write documents by key | what sessions leave | find by several arms
    embedding             vectors: the durable queue, the embedders, the guard around them
    documents             rows of session memory and links; kinds, origins, trust
    audit                 who did what to whose memory
    schema                schemas and roles per agent; run SQL as one of them
    words                 tokens and passages, pure
    settings              the only reader of the environment

`migrations` holds SQL files only.
"""

VERSION = "0.1.0"
