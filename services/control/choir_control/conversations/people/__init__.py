"""People of config.json: their identities, and the codes that link further ones.

Owns the tables `person_identities`, `conversation_followers` and `user_languages`.
Does not decide on rights: `configuration.people` does.
"""
