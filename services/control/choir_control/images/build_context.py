"""Build context of an agent's image: generated Dockerfiles, files and image names. Pure.

Three layers for caching: the base by the global repository's commit; the agent's system packages and
programs by its tools and Dockerfile; on top the files that change most often.
"""

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_control.images.builder import BuildInput, ImageFile

ContextFiles = Mapping[str, tuple[bytes | Path, bool]]
BASE_IMAGE = "choir-base"
DOCKERFILE = ".choir-dockerfile"
"""Name of the Dockerfile in a build context."""
_FROM = re.compile(
    rf"^(\s*FROM\s+(?:--platform=\S+\s+)?){BASE_IMAGE}(?::[\w.$\{{\}}-]+)?(?=\s|$)",
    re.IGNORECASE | re.MULTILINE,
)
DEFAULT_DOCKERFILE = f"FROM {BASE_IMAGE}\n"
# valid last component of a repository name for an engine, without dots
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:__?|-+)[a-z0-9]+)*")
_HASH_LENGTH = 8


def image_context_files(pieces: list[ImageFile]) -> ContextFiles:
    """Return the files for /choir."""
    return {
        "choir/": (b"", True),
        **{f"choir/{piece.path}": (piece.content, piece.executable) for piece in pieces},
    }


def agent_context_files(recipe: BuildInput) -> ContextFiles:
    """Return the files of the agent's repository, as the context of its Dockerfile."""
    own = recipe.agent_tree
    if own is None:
        return {}
    return {path: (own.root / path, entry.executable) for path, entry in own.files.items()}


def base_dockerfile(recipe: BuildInput) -> str | None:
    """Return the global repository's Dockerfile.base, or None if it has none."""
    shared = recipe.global_tree
    if shared is None or "Dockerfile.base" not in shared.files:
        return None
    return shared.read("Dockerfile.base").decode("utf-8", "replace")


def base_context_files(recipe: BuildInput) -> ContextFiles:
    """Return the files of the global repository, as the context of its Dockerfile.base."""
    shared = recipe.global_tree
    if shared is None:
        return {}
    return {path: (shared.root / path, entry.executable) for path, entry in shared.files.items()}


def own_dockerfile(recipe: BuildInput, base: str) -> str:
    """Return the agent's Dockerfile on `base`. Raises InvalidRequest if it has another base."""
    own = recipe.agent_tree
    if own is None or "Dockerfile" not in own.files:
        return pin_base_image(DEFAULT_DOCKERFILE, base)
    text = own.read("Dockerfile").decode("utf-8", "replace")
    if not uses_base_image(text):
        raise InvalidRequest(
            _(
                "The Dockerfile of {agent_id} has no `FROM choir-base`: the agent itself is in that "
                "image."
            ).format(agent_id=recipe.agent_id)
        )
    return pin_base_image(text, base)


def make_build_context(dockerfile: str, files: ContextFiles) -> io.BytesIO:
    """Return a build context; equal contents give equal layers."""
    return make_archive({**files, DOCKERFILE: (dockerfile.encode(), False)})


def make_archive(files: ContextFiles) -> io.BytesIO:
    """Return a tar archive of files; times and owners are fixed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, (content, executable) in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            _add(archive, path, data, 0o755 if executable else 0o644)
    buffer.seek(0)
    return buffer


def _add(archive: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    member = tarfile.TarInfo(path.rstrip("/"))
    if path.endswith("/"):
        member.type = tarfile.DIRTYPE
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def describe_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, bool, str]:
    """Return a file's path below /choir, whether it is executable, and the hash of its content."""
    path = member.name.removeprefix("choir/")
    if member.issym():
        return path, False, f"-> {member.linkname}"
    file = archive.extractfile(member) if member.isfile() or member.islnk() else None
    if file is None:
        return path, False, "special"
    return path, bool(member.mode & 0o111), hashlib.sha256(file.read()).hexdigest()


def image_repository(agent_id: str) -> str:
    """Return the image repository of an agent; it is unique per agent.

    An id that engines do not accept, such as `a_-b`, is replaced by one with a hash behind a dot, which
    no id contains.
    """
    if _REPOSITORY.fullmatch(agent_id):
        return f"choir-agent-{agent_id}"
    plain = re.sub(r"[^a-z0-9]+", "-", agent_id).strip("-")
    return f"choir-agent-{plain}.{hashlib.sha256(agent_id.encode()).hexdigest()[:_HASH_LENGTH]}"


def pin_base_image(dockerfile: str, base: str) -> str:
    """Return the Dockerfile with `FROM choir-base` replaced by exactly `base`."""
    return _FROM.sub(rf"\g<1>{base}", dockerfile)


def uses_base_image(dockerfile: str) -> bool:
    """Return whether any stage of a Dockerfile starts from choir-base."""
    return _FROM.search(dockerfile) is not None


def tools_dockerfile(base: str) -> str:
    """Return the Dockerfile that adds the merged tools to the base, for programs to be compiled there."""
    return f"FROM {base}\nUSER root\nCOPY choir/ /choir/\n"


def final_dockerfile(base_image: str) -> str:
    """Return the Dockerfile that adds the remaining files and sets the agent's start command."""
    return (
        f"FROM {base_image}\nUSER root\nCOPY choir/ /choir/\nWORKDIR /\nENTRYPOINT []\n"
        'CMD ["/opt/agent/bin/python", "-I", "-m", "choir_agent"]\n'
    )
