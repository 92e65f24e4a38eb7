"""Keys in a followed folder: files that are never opened, and key blocks that are masked: pure."""

import re
from fnmatch import translate

from choir_common.redactor import MASK

_NAMES = (
    *(
        ".env",
        ".env.*",
        "*.env",
        ".envrc",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".my.cnf",
        ".npmrc",
        ".pypirc",
    ),
    *(
        ".git-credentials",
        ".htpasswd",
        ".vault-token",
        "credentials",
        "credentials.json",
        "credentials.y*ml",
    ),
    *(
        "client_secret*.json",
        "service[-_]account*.json",
        "secrets.json",
        "secrets.y*ml",
        "secrets.toml",
    ),
    *(
        "token.json",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "*.pem",
        "*.key",
        "*.p8",
        "*.p12",
        "*.pfx",
    ),
    *("*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.kdb", "*.tfstate", "*.tfvars"),
)
_EXAMPLES = (".example", ".sample", ".template", ".dist")
_SECRET = re.compile("|".join(map(translate, _NAMES)))
_KEY_BLOCK = re.compile(
    r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", re.DOTALL
)


def is_secret_name(name: str) -> bool:
    """Return whether programs keep passwords or keys in files of this name."""
    lower = name.lower()
    return _SECRET.match(lower) is not None and not lower.endswith(_EXAMPLES)


def mask_private_keys(text: str) -> str:
    """Return a text without the private keys in it."""
    return _KEY_BLOCK.sub(MASK, text) if "PRIVATE KEY" in text else text
