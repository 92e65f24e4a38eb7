"""One schema and role per agent, and the only way to run SQL as one of them.

Never sets `search_path` on a connection: names are always qualified, so that a pooled connection
cannot carry one agent's schema into another agent's query.

    spaces    make an agent's space on first touch, and remember which exist
    store     roles, the list of spaces, transactions under an agent's role
    naming    the name of an agent's schema, or a refusal
"""
