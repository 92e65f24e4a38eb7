"""The channels to users, behind one small interface; each vendor library stays in its own package."""
