"""The agent runtime of Choir: lanes, arbiter, locks, tools."""
