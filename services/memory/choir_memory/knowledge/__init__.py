"""Knowledge (tier 4): documents that an agent writes on purpose, with or without a key.

Writes under the agent's own role only; vectors are added later by `embedding`. A write may require the
version it is based on; deleting a document also deletes what was derived from it alone.
"""
