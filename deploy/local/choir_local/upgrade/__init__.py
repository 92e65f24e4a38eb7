"""Upgrades of the embedded installation that complete or are undone, whatever is killed in between.

`sequence` has the order of the steps, `record` where they stand, `steps` what each does, and `code` how the
new version gets there. Decision 112 has the reasons.
"""
