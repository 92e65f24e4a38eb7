"""Brings agents to their newest image: build, update, update-all (spec 17.3 to 17.5).

Never decides what an image holds (`images` does) nor how an agent stops and starts (`sessions` does).
Ladder: begin > update.
"""
