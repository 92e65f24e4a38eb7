"""People of config.json: their identities, and the codes that link further ones.

Owns the tables `person_identities` and `conversation_followers`.
Does not decide on rights: `configuration.people` does.
"""
