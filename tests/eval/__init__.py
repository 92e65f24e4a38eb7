"""Does memory find what it should? `make eval DATA=FILE` asks the real service, and counts.

    __main__    the command: read, ask, print the table, write .bench/eval.json
    harness     real Postgres, NATS and memory service; write units, wait for vectors, ask
    measures    recall and ranks, per question and summed up
    formats     LoCoMo, BEAM and JSONL as units and questions
    corpus      what is asked of what

`data` holds examples of our own; other data is given by path and never copied here.
"""
