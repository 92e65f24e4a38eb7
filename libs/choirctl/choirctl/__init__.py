"""The operator's command line of Choir: a client of control's `/v1`, and the way to start it all.

Owns the words a person reads and types: commands, progress, tables, paragraphs for errors, exit codes.
Never decides anything about agents and never reads Postgres or NATS: what it knows, `/v1` told it, or the
files of a local installation did.

Ladder, top first; each rung uses only those below it:
    __main__           runs a command, turns what was raised into a paragraph and an exit code
    app                the table of commands; loads only the one that is called
    commands/          one module per command group: options in, data out
    start_screen | talk | health
                       what `up` shows; a conversation on a terminal; what `doctor` looks at
    conversation       say something in a DM and hear all that comes, once
    control_api        `/v1` as typed calls
    failures           an exception as a paragraph and an exit code
    place | printing | model_note
                       which Choir is meant; data to stdout, words to stderr; the model in a sentence
"""
