"""Writer of a merged /choir into a directory, and its version. Functions block."""

import hashlib
import shutil
from pathlib import Path

from choir_common.identity_dir import (
    SKILLS_DIR,
    TOOLS_DIR,
    VERSION_FILE,
    ImageVersion,
    hash_directory,
)
from choir_control.images.builder import BuildInput, ImageFile

VERSION_LENGTH = 12


def write_files(pieces: tuple[ImageFile, ...], into: Path) -> None:
    """Write every file below `into`, read-only."""
    for piece in pieces:
        target = into / piece.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(piece.content, bytes):
            target.write_bytes(piece.content)
        else:
            shutil.copyfile(piece.content, target)
        target.chmod(0o555 if piece.executable else 0o444)


def recipe_commits(recipe: BuildInput) -> tuple[str, str]:
    """Return the commits of the global and the agent's own repository; empty if there is none."""
    return (
        recipe.global_tree.commit if recipe.global_tree else "",
        recipe.agent_tree.commit if recipe.agent_tree else "",
    )


def make_version(
    agent_id: str, commits: tuple[str, str], tools: str, skills: str, everything: str
) -> ImageVersion:
    """Return the version of an image with these hashes; equal contents have equal versions."""
    shared, own = commits
    # Commits are part of it: a commit without any visible change is a new version, too.
    identity = "\n".join((agent_id, shared, own, everything))
    return ImageVersion(
        agent_id=agent_id,
        image_version=hashlib.sha256(identity.encode()).hexdigest()[:VERSION_LENGTH],
        global_repo_commit=shared,
        agent_repo_commit=own,
        tool_manifest_hash=tools,
        skill_manifest_hash=skills,
    )


def version_of_directory(agent_id: str, commits: tuple[str, str], top: Path) -> ImageVersion:
    """Return the version of a directory's contents; version.json in it is ignored."""
    tools, skills = hash_directory(top / TOOLS_DIR), hash_directory(top / SKILLS_DIR)
    return make_version(agent_id, commits, tools, skills, hash_directory(top))


def describe_image(
    agent_id: str, commits: tuple[str, str], top: Path, agent_image: str
) -> ImageVersion:
    """Return the version of an image whose /choir is `top`; `agent_image` identifies the agent in it."""
    tools, skills = hash_directory(top / TOOLS_DIR), hash_directory(top / SKILLS_DIR)
    return make_version(agent_id, commits, tools, skills, f"{hash_directory(top)}\n{agent_image}")


def write_version(version: ImageVersion, top: Path) -> None:
    """Write version.json."""
    path = top / VERSION_FILE
    path.write_text(version.model_dump_json(indent=2) + "\n")
    path.chmod(0o444)
