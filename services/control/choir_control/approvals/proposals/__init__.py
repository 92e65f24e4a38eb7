"""Applies approved proposals: settings, skills, tool descriptions and merges.

Never decides, and never does anything other than what was shown: every step compares the current state
with what was shown. The plan is stored before it is executed, so that after a crash the next start can
tell whether it was executed. Rules: `docs/design/approvals.md`.
"""
