"""Session lifecycle: start, handshake, stop, crash, resume and abandonment of agents.

Owns the table `sessions`. Each step is one transaction in the store; the process is then started or
stopped to match the row. The content of events is not read here.
"""
