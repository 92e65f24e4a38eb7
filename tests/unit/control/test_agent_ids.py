"""An agent id stands in names of many kinds: none is shared by two agents, and none is refused."""

import itertools
import re
from pathlib import Path

from choir_common.ids import is_agent_id
from choir_control.agents.runtimes.containers import ContainerLimits
from choir_control.agents.runtimes.docker.container import Installation, container_name
from choir_control.agents.runtimes.kubernetes.pod import PodSite, pod_name
from choir_control.images.build_context import image_repository
from choir_control.images.build_service import _clear
from choir_control.settings import ControlSettings
from choir_memory.schema.store import schema_name

IDS = (
    "a",
    "a-b",
    "a_b",
    "a--b",
    "a__b",
    "a___b",
    "a-_b",
    "a_-b",
    "a-",
    "a_",
    "a-b-c",
    "x" + "-" * 40,
)
LONGEST_IN_POSTGRES = 63
# the grammar of an engine: names of containers, and the last part of a repository's name
CONTAINER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
POD = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")


def test_letters_digits_underscores_and_hyphens_name_an_agent_and_nothing_else_does() -> None:
    assert all(is_agent_id(one) for one in IDS)
    for other in ("", "-a", "_a", "1a", "A", "a.b", "a b", "a/b", "a\n", "ä", "x" * 42):
        assert not is_agent_id(other), other


def test_no_two_agents_share_a_schema_a_container_an_images_name_or_a_socket(
    tmp_path: Path,
) -> None:
    settings = ControlSettings(home=tmp_path, postgres_dsn="postgresql://choir@localhost/choir")
    site = Installation(tmp_path, "image", "bridge", 1, 1, "info", ContainerLimits())
    pods = PodSite(tmp_path, "choir-home", "image", 1, 1, "info", ContainerLimits())
    for name in (
        schema_name,
        image_repository,
        settings.agent_socket_dir,
        lambda one: container_name(site, one),
        lambda one: pod_name(pods, one),
    ):
        made = [str(name(one)) for one in IDS]
        assert len(set(made)) == len(IDS)
    assert all(len(schema_name(one)) <= LONGEST_IN_POSTGRES for one in IDS)
    assert all(CONTAINER.fullmatch(container_name(site, one)) for one in IDS)
    assert all(POD.fullmatch(pod_name(pods, one)) for one in IDS)
    assert all(REPOSITORY.fullmatch(image_repository(one)) for one in IDS)


def test_what_a_build_of_one_agent_left_is_not_cleared_by_a_build_of_another(
    tmp_path: Path,
) -> None:
    for one, other in itertools.permutations(("a", "a-b", "a_b"), 2):
        left = tmp_path / f"{other}.0a1b2c3d"
        left.mkdir(exist_ok=True)
        _clear(tmp_path, one)
        assert left.is_dir(), (one, other)
        _clear(tmp_path, other)
        assert not left.exists()
