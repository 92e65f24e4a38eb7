"""Write the Dockerfiles of an agent's image, pin the base of the repositories' own, name the image. Pure.

Called by `docker`. Three layers of caching: the base by the global repository's commit, the agent's own
system packages and programs by its tools and Dockerfile, and on top the files that change most.
"""

import hashlib
import re

BASE = "choir-base"
_FROM = re.compile(
    rf"^(\s*FROM\s+(?:--platform=\S+\s+)?){BASE}(?::[\w.$\{{\}}-]+)?(?=\s|$)",
    re.IGNORECASE | re.MULTILINE,
)
PLAIN = f"FROM {BASE}\n"
# what an engine takes as the last part of a repository's name, without dots
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:__?|-+)[a-z0-9]+)*")
_HASH_LENGTH = 8


def repository_of(agent_id: str) -> str:
    """Return the repository of an agent's images; no two agents share one.

    An id that engines do not take, such as `a_-b`, is written with a hash behind a dot, which no id has.
    """
    if _REPOSITORY.fullmatch(agent_id):
        return f"choir-agent-{agent_id}"
    plain = re.sub(r"[^a-z0-9]+", "-", agent_id).strip("-")
    return f"choir-agent-{plain}.{hashlib.sha256(agent_id.encode()).hexdigest()[:_HASH_LENGTH]}"


def pin_base(dockerfile: str, base: str) -> str:
    """Return a Dockerfile whose `FROM choir-base` is exactly `base`."""
    return _FROM.sub(rf"\g<1>{base}", dockerfile)


def stands_on_base(dockerfile: str) -> bool:
    """Tell whether any stage of a Dockerfile is made from choir-base."""
    return _FROM.search(dockerfile) is not None


def with_tools(base: str) -> str:
    """Return the Dockerfile that puts the merged tools on the base, for programs to be compiled there."""
    return f"FROM {base}\nUSER root\nCOPY choir/ /choir/\n"


def with_the_rest(built: str) -> str:
    """Return the Dockerfile that adds what no compiler needs, and starts the agent whatever came before."""
    return (
        f"FROM {built}\nUSER root\nCOPY choir/ /choir/\nWORKDIR /\nENTRYPOINT []\n"
        'CMD ["/opt/agent/bin/python", "-I", "-m", "choir_agent"]\n'
    )
