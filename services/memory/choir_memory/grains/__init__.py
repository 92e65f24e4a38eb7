"""Time summaries: what an agent lived through by day, week, month, quarter and year (MEMORY.md, time grains).

Finds by itself which periods are due, from the data: after a downtime it catches up. Never summarises a
period that is not over, and never keeps a summary whose sources have changed. A day is made of the turns
of sessions, every coarser grain of the finer one's summaries; each has links to what it rolls up.

    rounds        go round the agents from time to time
    retention     what is kept no longer, for agents that do not keep everything
    consolidate   what is due of every agent, one writer per agent and grain
    cutoffs       what an agent keeps no longer, pure
    digest        what a period says now: by a model, else by selection
    select        the sentences that say most, pure
    periods       names and spans of periods, pure
    store         the statements; `retention_store` those that delete
"""
