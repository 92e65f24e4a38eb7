"""Patterns for addresses in settings, and the message for each."""

HOST_AND_PORT_PATTERN = r"^\S+:\d{1,5}$"
WEB_ADDRESS_PATTERN = r"^https?://\S+$"
ADDRESS_RULES = {
    HOST_AND_PORT_PATTERN: "must be host and port, such as 127.0.0.1:9512",
    WEB_ADDRESS_PATTERN: "must start with http:// or https:// and contain no spaces",
}
