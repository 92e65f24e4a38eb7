"""Skills: state machines that guide a lane step by step, with the tools of each step only.

Owns the SkillSpec, its validation, the registry of this agent's skills, and the pure engine that rules on
transitions. Never runs a tool, takes a lock or appends to the log: that is the arbiter's task. See
docs/design/skills.md.
"""
