"""The three steps of a build's pod: `fetch` the agent's image, `build`, `push`. Run in choir-builder.

`fetch` and `push` have the registry's credential and execute nothing foreign; `build` executes the
repositories' Dockerfiles and has no credential. They share the directory /work; /notes, which says what to
push where, is read-only for `build`. What control must know is the termination message of `fetch` or `push`:
a `BuiltImage`, or in case of a failure its reason.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from choir_common.i18n import _
from choir_common.identity_dir import SKILLS_DIR, TOOLS_DIR, VERSION_FILE, ImageVersion
from choir_control.images.build_context import DOCKERFILE
from choir_control.images.image_files import describe_image
from choir_control.images.job.context import AGENT, BASE, PLAN, REST, BuildRecipe, local_image
from choir_control.images.job.manifest import BuildSettings, BuiltImage

WORK, NOTES = Path("/work"), Path("/notes")
REGISTRY_FILES = Path("/registry")
TERMINATION_LOG = Path("/dev/termination-log")
FOUND, NAME, AGENT_DIGEST = NOTES / "found", NOTES / "name", NOTES / "agent-digest"
CONTEXT, OUTPUT, VERSION = WORK / "context", WORK / "image", WORK / VERSION_FILE
NAMESPACE = ("unshare", "--user", "--mount", "--map-auto", "--setuid", "0", "--setgid", "0")
"""Begins a user namespace whose root is a user without rights outside of it, by /etc/subuid."""
FINAL = "final"
LABEL_VERSION = "choir.version"
TAG_CHARS = 40
ABSENT = ("manifest unknown", "name unknown", "repository name not known", "not found")
"""How registries say that there is no such image."""


class StepFailed(Exception):
    """A step cannot be completed; the text is for people."""


def fetch(settings: BuildSettings) -> None:
    """Read the context; look for an image of the same contents, else copy the agent's image to /work."""
    _receive(settings, sys.stdin.buffer.read(settings.context_bytes))
    agent = str(_inspect(settings.agent_image)["Digest"])
    AGENT_DIGEST.write_text(agent)
    name = f"{settings.repository}:{tag_of(settings.context_sha256, agent)}"
    NAME.write_text(name)
    existing = _find(name)
    if existing is not None:
        FOUND.touch()
        version = ImageVersion.model_validate_json(existing["Labels"][LABEL_VERSION])
        _tell(BuiltImage(digest=existing["Digest"], version=version).model_dump_json())
        return
    repository = settings.agent_image.rpartition("@")[0] or settings.agent_image
    bare = repository if ":" not in repository.rpartition("/")[2] else repository.rpartition(":")[0]
    _skopeo("copy", "--quiet", f"docker://{bare}@{agent}", f"dir:{WORK / AGENT}", side="src")


def tag_of(context_sha256: str, agent_digest: str) -> str:
    """Return the tag of the image of these contents."""
    return hashlib.sha256(f"{context_sha256}\n{agent_digest}".encode()).hexdigest()[:TAG_CHARS]


def _receive(settings: BuildSettings, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != settings.context_sha256:
        raise StepFailed(
            _("the build context is incomplete: {count} bytes came. Try again").format(
                count=len(data)
            )
        )
    path = WORK / "context.tar"
    path.write_bytes(data)


def build() -> None:
    """Begin a user namespace and build there, unless there is such an image already."""
    if FOUND.exists():
        return
    command = (*NAMESPACE, sys.executable, *sys.orig_argv[1:-1], "build-inside")
    os.execvp(command[0], command)  # noqa: S606 - the arguments are fixed


def build_inside() -> None:
    """Execute the Dockerfiles of all parts, write version.json, and leave the image in /work."""
    with tarfile.open(WORK / "context.tar") as archive:
        archive.extractall(CONTEXT, filter="data")
    plan = BuildRecipe.model_validate_json((CONTEXT / PLAN).read_bytes())
    image_id = _run("buildah", "pull", "--quiet", f"dir:{WORK / AGENT}").splitlines()[-1]
    _run("buildah", "tag", image_id, local_image(AGENT))
    for part in plan.parts:
        agent = ("--build-arg", f"CHOIR_AGENT={local_image(AGENT)}") if part == BASE else ()
        _build_part(CONTEXT / part, local_image(part), *agent)
    _refuse_volumes(local_image(REST))
    version = _describe(plan)
    VERSION.write_text(version.model_dump_json(indent=2) + "\n")
    last = CONTEXT / FINAL
    last.mkdir()
    (last / VERSION_FILE).write_bytes(VERSION.read_bytes())
    copy = f"COPY {VERSION_FILE} /choir/{VERSION_FILE}"
    (last / DOCKERFILE).write_text(f"FROM {local_image(REST)}\n{copy}\n")
    label = f"{LABEL_VERSION}={version.model_dump_json()}"
    _build_part(last, local_image(FINAL), "--label", label)
    _run("buildah", "push", "--quiet", local_image(FINAL), f"dir:{OUTPUT}")
    for path in (OUTPUT, *OUTPUT.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def push() -> None:
    """Push the image under its contents' name, and tell control its digest."""
    if FOUND.exists():
        return
    name, digest_file = NAME.read_text(), Path("/tmp/digest")  # noqa: S108 - of the pod
    target = ("--digestfile", str(digest_file), f"dir:{OUTPUT}", f"docker://{name}")
    _skopeo("copy", "--quiet", *target, side="dest")
    version = ImageVersion.model_validate_json(VERSION.read_bytes())
    _tell(BuiltImage(digest=digest_file.read_text().strip(), version=version).model_dump_json())


def _build_part(directory: Path, name: str, *options: str) -> None:
    """Build one part; its output is the build's log, and its last line the reason of a failure."""
    command = [
        *("buildah", "build", "--isolation", "chroot", "--network", "host", "--format", "docker"),
        *("--pull=missing", "--no-cache", "--force-rm", *options, "--tag", name),
        *("--file", str(directory / DOCKERFILE), str(directory)),
    ]
    newest = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            newest = line.strip() or newest
    if process.returncode:
        raise StepFailed(newest.removeprefix("Error: "))


def _refuse_volumes(image: str) -> None:
    details = json.loads(_run("buildah", "inspect", "--type", "image", image))
    if volumes := details["Docker"]["config"].get("Volumes"):
        raise StepFailed(
            _(
                "The image has VOLUME {volumes}: an agent can write to /workspace and /tmp alone. Remove "
                "it from the Dockerfile, or use another base image."
            ).format(volumes=", ".join(sorted(volumes))[:200])
        )


def _describe(plan: BuildRecipe) -> ImageVersion:
    """Return the version of what is in /choir of the built image."""
    container = _run("buildah", "from", "--pull=never", local_image(REST)).strip()
    top = Path(_run("buildah", "mount", container).strip()) / "choir"
    for path in (top, top / TOOLS_DIR, top / SKILLS_DIR):
        if path.is_symlink():
            raise StepFailed(
                _("/choir/{path} is a symbolic link, not a directory").format(
                    path=path.relative_to(top)
                )
            )
    agent_digest = AGENT_DIGEST.read_text()
    version = describe_image(plan.agent_id, plan.commits, top, agent_digest)
    _run("buildah", "rm", container)
    return version


def _inspect(name: str) -> dict[str, Any]:
    return dict(json.loads(_skopeo("inspect", "--no-tags", f"docker://{name}")))


def _find(name: str) -> dict[str, Any] | None:
    try:
        return _inspect(name)
    except StepFailed as error:
        if any(text in str(error).lower() for text in ABSENT):
            return None
        raise


def _skopeo(action: str, *arguments: str, side: str = "") -> str:
    prefix = f"--{side}-" if side else "--"
    options = []
    if (REGISTRY_FILES / "config.json").exists():
        options += [
            f"{prefix}authfile" if side else "--authfile",
            str(REGISTRY_FILES / "config.json"),
        ]
    if (REGISTRY_FILES / "ca.crt").exists():
        options += [f"{prefix}cert-dir", str(REGISTRY_FILES)]
    return _run("skopeo", action, *options, *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"{command[0]}: exit code {done.returncode}"]
        raise StepFailed(lines[-1].removeprefix("Error: "))
    return done.stdout


def _tell(text: str) -> None:
    """Leave a termination message, at most 4096 bytes."""
    TERMINATION_LOG.write_text(text[:4_000])


def main() -> int:
    """Run the step that is named on the command line; return the exit code."""
    try:
        match sys.argv[1]:
            case "fetch":
                fetch(BuildSettings.read(os.environ))
            case "build":
                build()
            case "build-inside":
                build_inside()
            case "push":
                push()
            case other:
                raise StepFailed(_("there is no step {other}").format(other=other))
    except (StepFailed, OSError, ValueError, tarfile.TarError) as error:
        sys.stderr.write(f"{error}\n")
        _tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
