"""What a memory needs as it grows: indexes over vectors, fresh statistics, and an end of old traces.

Never touches what an agent wrote or lived through, and is never waited for: a search without an index is
exact and slower, that is all.

    upkeep        the loop; one replica at a time
    plan          which indexes are to be made and dropped, pure
    index_store   vector tables and their indexes in Postgres
    prune_store   receipts, audit and call ids that are older than they are of use
"""
