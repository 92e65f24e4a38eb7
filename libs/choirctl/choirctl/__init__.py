"""The operator's command line of Choir: a client of control's `/v1` API that can also start the local stack.

Owns the user interface: commands, progress displays, tables, error paragraphs and exit codes. It makes no
decision about agents and reads neither Postgres nor NATS; it only knows what `/v1` and the files of a local
installation contain. `choirctl db` is the exception: it works on the embedded database through `choir_local`.
"""
