"""One schema and role per agent, and the only way to run SQL under an agent's role.

`search_path` is never set on a connection: names are always qualified, so that a pooled connection
cannot carry one agent's schema into another agent's query.
"""
