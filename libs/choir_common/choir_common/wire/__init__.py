"""Every model that crosses a process boundary, and only those: frozen, strict, extra-forbid.

Called by all services and clients. Never holds behaviour beyond parsing and rendering itself.
One module per subject: events, rpc, signals, messages, memories, browsing, config, operator, runtime.
"""
