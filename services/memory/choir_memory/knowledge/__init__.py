"""Knowledge (tier 4): documents an agent writes on purpose, by key or without (spec 11.6).

Writes under the agent's own role only; the vector comes later, from `embedding`. A write may name the version
it stands on; deleting takes along what only the deleted supported.

    upsert    check a write, do it once per call_id, wake the embedding queue
    store     the statements
"""
