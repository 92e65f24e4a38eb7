"""The identity files of an agent whose repositories have none."""
