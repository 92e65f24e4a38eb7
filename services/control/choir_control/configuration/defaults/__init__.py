"""Default identity files, for agents whose repositories have none."""
