"""The commands, one module per command or group. Each has `register(app)`, which `app` calls when needed."""
