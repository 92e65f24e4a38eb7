"""Skills (spec 10): state machines that say, step by step, what a lane is to do and with which tools.

Owns the SkillSpec, its validation, the registry of this agent's skills and the pure engine that rules on
transitions. Never runs a tool, holds a lock or appends to the log: that is the arbiter's.
Ladder: registry > read > well_formed | engine > allow | note > spec > shapes > schemas.
"""
