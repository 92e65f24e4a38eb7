"""Choir as a service of the operating system: unit files, and the programs that start and stop them."""
