"""People of config.json: their identities, and the codes that link further ones.

Owns the table `person_identities`. Does not decide on rights: `configuration.people` does.
"""
