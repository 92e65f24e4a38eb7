"""The tools that ship with Choir (spec 8.7)."""
