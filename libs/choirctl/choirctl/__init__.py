"""The operator's command line of Choir: a client of control's `/v1`, and the way to start it all.

Owns the words a person reads and types: commands, progress, tables, paragraphs for errors, exit codes.
Never decides anything about agents and never reads Postgres or NATS: what it knows, `/v1` told it, or the
files of a local installation did.

Ladder, top first; each rung uses only those below it:
    __main__ | commands    runs a command, turns what was raised into an exit code; one module per group
    arguments              arguments that many commands take, and what completes them
    app | talk             the table of commands; a conversation on a terminal
    going_on | stopping    what a chat shows while nothing is said; that nobody is left to answer
    conversation | dm_choice | health | operations | memory_api | parcels | past | prompt | watching
                           say something in a DM and hear all that comes, once; which DM that is;
                           what `doctor` looks at; long works; memories; files both ways; what was said
                           before; the line that is typed; the log of whoever holds a DM
    control_api | failures | first_home | model_key | start_screen | lanes
                           `/v1` as typed calls; an exception as a paragraph; the first state directory; the
                           key of the real model;
                           what `up` ends with; what lanes and jobs do
    chat_lines | place | questions | spoken | views | memory_views
                           what a typed line means; which Choir is meant; open requests; words laid out for a
                           terminal; answers as tables
    config_insert | new_agent
                           entries in a config.json that a person wrote; which of them an agent needs
    background | config_file | examples | foreground | late | printing | secrets_file | start_progress
                           the embedded stack here or in a process of its own, and what it is doing;
                           the files of a home; data to stdout, words to stderr; what is loaded late
"""
