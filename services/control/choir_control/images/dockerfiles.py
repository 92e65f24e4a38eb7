"""Generated Dockerfiles, pinning of `FROM choir-base`, and image names. Pure.

Called by `docker`. Three layers for caching: the base by the global repository's commit; the agent's
system packages and programs by its tools and Dockerfile; on top the files that change most often.
"""

import hashlib
import re

BASE = "choir-base"
_FROM = re.compile(
    rf"^(\s*FROM\s+(?:--platform=\S+\s+)?){BASE}(?::[\w.$\{{\}}-]+)?(?=\s|$)",
    re.IGNORECASE | re.MULTILINE,
)
PLAIN = f"FROM {BASE}\n"
# valid last component of a repository name for an engine, without dots
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:__?|-+)[a-z0-9]+)*")
_HASH_LENGTH = 8


def repository_of(agent_id: str) -> str:
    """Return the image repository of an agent; it is unique per agent.

    An id that engines do not accept, such as `a_-b`, is replaced by one with a hash behind a dot, which
    no id contains.
    """
    if _REPOSITORY.fullmatch(agent_id):
        return f"choir-agent-{agent_id}"
    plain = re.sub(r"[^a-z0-9]+", "-", agent_id).strip("-")
    return f"choir-agent-{plain}.{hashlib.sha256(agent_id.encode()).hexdigest()[:_HASH_LENGTH]}"


def pin_base(dockerfile: str, base: str) -> str:
    """Return the Dockerfile with `FROM choir-base` replaced by exactly `base`."""
    return _FROM.sub(rf"\g<1>{base}", dockerfile)


def stands_on_base(dockerfile: str) -> bool:
    """Return whether any stage of a Dockerfile starts from choir-base."""
    return _FROM.search(dockerfile) is not None


def with_tools(base: str) -> str:
    """Return the Dockerfile that adds the merged tools to the base, for programs to be compiled there."""
    return f"FROM {base}\nUSER root\nCOPY choir/ /choir/\n"


def with_the_rest(built: str) -> str:
    """Return the Dockerfile that adds the remaining files and sets the agent's start command."""
    return (
        f"FROM {built}\nUSER root\nCOPY choir/ /choir/\nWORKDIR /\nENTRYPOINT []\n"
        'CMD ["/opt/agent/bin/python", "-I", "-m", "choir_agent"]\n'
    )
