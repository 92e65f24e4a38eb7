"""Working memory (spec 11.3): the event window that goes into the prompt, and search over the log."""
