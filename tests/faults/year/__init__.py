"""A simulated year of one agent's memory: the real service, a driven clock and seeded crashes."""
