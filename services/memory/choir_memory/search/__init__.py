"""Search over an agent's documents: a full-text arm and a vector arm, fused into one ranking.

Each hit reports the rank and score from each arm. Reads only: an agent's own store under its role,
another agent's through the admin path.
"""
