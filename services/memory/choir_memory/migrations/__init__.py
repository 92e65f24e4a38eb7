"""SQL migrations: `shared` for the service's own schema, `agent` for the schema of each agent."""
