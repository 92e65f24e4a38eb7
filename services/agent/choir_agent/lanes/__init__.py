"""Lanes: who thinks about what (spec 7.1): the edge lane, which talks with the user, and core jobs beside it.

A lane proposes; it can change nothing but through the arbiter. It keeps no state beside the log: it looks,
makes the next move, and looks again. Jobs live inside the edge lane's `run` and end before it does.
Ladder: receive | ending > edge > turn | jobs > core > core_moves > next_move | deliverable >
think | prompts | skill_steps | edge_states | core_states.
"""
