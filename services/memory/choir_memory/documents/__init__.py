"""Documents of session memory, and the links between documents: what kinds there are, and their rows.

Owns the words for tiers, kinds, origins and trust, the ids of rows, and every statement that writes
`memory_documents` or `links`. Never decides what is worth keeping (`sessions`, `grains` and `layers` do), and
never makes vectors: whoever writes a document asks `embedding` for them.

    store        rows of one agent: put, move to another tier
    erase_store  delete documents with all that tells of them and what only they supported
    links_store  why a derived row is there
    row          a row before it is stored, and the id it will always have
    kinds        tiers, kinds, origins and how far each is trusted
"""
