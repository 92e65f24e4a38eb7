"""The schema `choir_<agent_id>`: an agent's documents and vectors (spec 23.2, 23.3)."""
