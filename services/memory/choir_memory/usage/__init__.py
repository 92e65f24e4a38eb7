"""What the service's own calls of providers used, reported to control, which prices them."""
