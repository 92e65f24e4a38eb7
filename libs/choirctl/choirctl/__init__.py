"""The operator's command line of Choir: a client of control's `/v1`, and the way to start it all.

Owns the words a person reads and types: commands, progress, tables, paragraphs for errors, exit codes.
Never decides anything about agents and never reads Postgres or NATS: what it knows, `/v1` told it, or the
files of a local installation did.

Ladder, top first; each rung uses only those below it:
    __main__ | commands    runs a command, turns what was raised into an exit code; one module per group
    arguments              arguments that many commands take, and what completes them
    app | talk             the table of commands; a conversation on a terminal
    conversation | health  say something in a DM and hear all that comes, once; what `doctor` looks at
    control_api | failures | first_home | start_screen
                           `/v1` as typed calls; an exception as a paragraph; the first state directory;
                           what `up` ends with
    place | views          which Choir is meant; answers as tables
    background | config_file | examples | foreground | late | printing | secrets_file | start_progress
                           the embedded stack here or in a process of its own, and what it is doing;
                           the files of a home; data to stdout, words to stderr; what is loaded late
"""
