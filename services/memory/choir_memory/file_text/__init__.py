"""Text of files: PDF, Office, HTML, source code and plain text, read in a child process with limits.

Files may be hostile. The libraries that parse them are loaded by the child only; each file is read in a fork
of it that can open nothing, with limits on memory and CPU time (`sandbox.py`).
"""
