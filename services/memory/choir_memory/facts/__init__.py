"""Facts and rules extracted from sessions by a language model, and their reconciliation with known ones.

Every fact has links to its sources, and its trust is not higher than theirs.
"""
