"""The schema `choir_<agent_id>`: an agent's documents and vectors."""
