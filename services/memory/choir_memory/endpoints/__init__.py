"""The doors to the bus: what `choir_common.clients` asks of this service.

One module per room behind it, each with a `table()` of its subjects; `app` serves them all. Doors parse
nothing and decide nothing: the bus hands over checked types, and the rooms answer.

    agents     an agent's own questions and writes, passed on by control
    sessions   what sessions leave behind, told by control
    collections  documents that were brought
    hints      what is known about a tool's failure
    patience   wait for a database that is away, as long as the caller waits
"""
