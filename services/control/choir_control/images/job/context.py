"""What a build's pod receives on standard input: the parts of the image, each with its Dockerfile. Pure.

A tar archive with one directory for each part, and `plan.json`, which `steps` reads.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from choir_common.identity_dir import TOOLS_DIR
from choir_control.images.build_context import (
    DOCKERFILE,
    ContextFiles,
    agent_context_files,
    base_context_files,
    base_dockerfile,
    final_dockerfile,
    image_context_files,
    make_archive,
    own_dockerfile,
    tools_dockerfile,
)
from choir_control.images.builder import BuildInput
from choir_control.images.image_files import recipe_commits

PLAN = "plan.json"
AGENT, BASE, TOOLS, OWN, REST = "agent", "base", "tools", "own", "rest"


class BuildRecipe(BaseModel):
    """The file `plan.json`: what is built, in this order, and the commits that it is built from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: str
    commits: tuple[str, str]
    parts: tuple[str, ...]


def local_image(part: str) -> str:
    """Return the name of a part's image in the pod's own storage."""
    return f"localhost/choir-{part}"


def make_context(recipe: BuildInput) -> bytes:
    """Return the archive; equal recipes give equal bytes. Blocks. Raises InvalidRequest."""
    parts: dict[str, tuple[str, ContextFiles]] = {}
    base = local_image(AGENT)
    if (text := base_dockerfile(recipe)) is not None:
        parts[BASE] = (text, base_context_files(recipe))
        base = local_image(BASE)
    tools = [piece for piece in recipe.files if piece.path.startswith(f"{TOOLS_DIR}/")]
    rest = [piece for piece in recipe.files if piece not in tools]
    parts[TOOLS] = (tools_dockerfile(base), image_context_files(tools))
    parts[OWN] = (own_dockerfile(recipe, local_image(TOOLS)), agent_context_files(recipe))
    parts[REST] = (final_dockerfile(local_image(OWN)), image_context_files(rest))
    plan = BuildRecipe(agent_id=recipe.agent_id, commits=recipe_commits(recipe), parts=tuple(parts))
    files: dict[str, tuple[bytes | Path, bool]] = {PLAN: (plan.model_dump_json().encode(), False)}
    for part, (dockerfile, contents) in parts.items():
        files[f"{part}/{DOCKERFILE}"] = (dockerfile.encode(), False)
        files |= {f"{part}/{path}": content for path, content in contents.items()}
    return make_archive(files).getvalue()
