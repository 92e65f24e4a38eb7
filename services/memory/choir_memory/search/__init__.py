"""Finds documents: a full-text arm and a vector arm, fused, each hit with what the arms thought of it.

Reads only. An agent's own store is read under its role, another's through the admin path.

    recall              one query from request to hits
    question            what may be asked, and the scope of it
    answer              hits and receipt as they are told
    pack                what fits into the budget, with what stands beside it
    fuse                weigh what the arms say, pure
    find                a small space whole, or the arms and what stands around what they name
    whole_store         all that is weighed of a small space
    material_store      all that is weighed of a large one
    columns_store       the columns both read
    material            what is weighed, pure
    corpora             what is known of large spaces
    stages              the time a search may take
    text_arm_store      documents by the query's rarest terms
    vector_arm_store    documents by the nearest vector
    read_store          documents as they are shown, and a session in its order
    receipts            many receipts in one statement
    receipt_store       what searches did
    scope_store         which documents may be seen
    scored              what an arm says of a document
"""
