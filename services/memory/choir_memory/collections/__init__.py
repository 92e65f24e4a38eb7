"""Document collections that an operator adds: splitting into passages, storage, removal."""
