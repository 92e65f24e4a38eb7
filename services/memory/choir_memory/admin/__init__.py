"""An operator's access to an agent's memory: read, write, erase, export, import.

Writes and reads of documents are audited as the operator's before the answer is sent. Reads use the
read-only admin path; writes run under the agent's role, like the agent's own. Control decides who
is an operator, not this package.
"""
