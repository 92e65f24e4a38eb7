"""Construction of the services, one module per package of services. `ControlApp` runs them."""
