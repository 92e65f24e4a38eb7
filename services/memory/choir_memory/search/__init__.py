"""Finds documents: a full-text arm and a vector arm, fused, each hit with what the arms thought of it.

Reads only. An agent's own store is read under its role, another's through the admin path.

    recall    one query from request to hits
    fuse      weigh the arms' scores, pure
    store     the statements of the arms
"""
