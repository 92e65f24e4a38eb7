"""SQL migrations: `shared` for the service's own schema, `agent` for the schema of each agent.

A new agent's schema is created by `new_agent.sql` alone; each migration in `agent` changes that file, too.
"""
