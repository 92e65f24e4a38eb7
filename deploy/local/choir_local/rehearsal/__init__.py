"""The rehearsal model: an OpenAI-compatible server that follows a written score.

Owns what a scripted model answers, on the wire of `/v1/chat/completions` and `/v1/embeddings`. It is
the default where no provider is configured and the model of every test and measurement. Never thinks,
never calls out, and keeps nothing but counters and the newest prompts, to count what is the same: which
answer comes next is read from the messages.

Ladder, top first:
    __main__ | run             as a process; inside a test
    app                        routes, counters, faults
    choose                     which answer comes next
    completion | embedding | prefix | jobs | remember | sample | template
    directives                 what a message orders
    turn                       what the messages of a request say
    score                      the written score
    lane                       who asks
"""
