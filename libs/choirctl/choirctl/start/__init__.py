"""What starts Choir and prepares its state directory: config edits, model key, local stack, health checks."""
