"""The embedded stack of Choir: Postgres, NATS, the rehearsal model and the services as children.

Owns what runs when there is no Docker: where the programs are found, how they are started, watched,
restarted and stopped, and the secrets of a local installation. Never does the work of a service: it
speaks to none of them but to ask whether it is ready.

Ladder, top first; each rung uses only those below it:
    stack                      what the embedded stack consists of, and the verbs up and down
    services | model_choice    the table of children; which model to use
    supervisor                 starts, watches, restarts, stops; writes run/stack.json
    postgres | nats            one embedded server each
    postgres_cluster | postgres_binaries
    running                    readiness and the end of one child
    launch                     how one child is started (through the script child_start)
    identity | home | stack_state | stack_secrets | socket_paths | log_tail
    probe | private_file | settings
Beside it: rehearsal, the scripted model server, which nothing here imports.
"""
