"""One module per command group; each has `register(app)`, which `app` calls when it is needed."""
