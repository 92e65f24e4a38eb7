"""Who did what to whose memory: every write, everything an operator looks at, every read across agents.

Names documents by id and never says what stands in them; keys count as content. An agent's searches of its
own memory are not here: each has a receipt.

    store    write an entry in the caller's transaction, read an agent's entries
"""
