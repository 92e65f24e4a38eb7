"""S17 for pods: the posture of an agent's pod in its manifest, as the API server gets it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest

from choir_common.errors import StartupError, Unavailable
from choir_common.redactor import Redactor
from choir_control.agents.runtimes.containers import ContainerLimits, boot_line
from choir_control.agents.runtimes.factory import make_runtime
from choir_control.agents.runtimes.kubernetes.pod import PodSite, pod_manifest
from choir_control.agents.runtimes.kubernetes.pod_state import describe_exit, start_fault
from choir_control.agents.runtimes.port import ControlAddress, LaunchSpec, ProxyAddress
from choir_control.settings import ControlSecrets, ControlSettings
from tests.security.runtimes.confined import TOKEN

GOLDEN = Path(__file__).parent / "golden" / "agent_pod.json"
HOME = Path("/var/lib/choir/home")
SPEC = LaunchSpec(
    agent_id="main",
    session_id="ses_1",
    epoch=3,
    lease_token=TOKEN,
    workspace=HOME / "workspaces/main",
    choir_dir=HOME / "agents/main/choir",
    socket_dir=HOME / "socks/agents/main",
    http=ControlAddress("https://control:9400", "the CA"),
)
SITE = PodSite(
    home=HOME,
    claim="choir-home",
    claim_path="home",
    image="choir-agent:local",
    uid=10001,
    gid=10001,
    log_level="info",
    limits=ContainerLimits(),
)


def test_the_manifest_is_the_one_that_was_reviewed() -> None:
    """A change here moves the boundary: review it against docs/design/security.md, then update the file."""
    manifest = pod_manifest(SITE, SPEC)
    assert manifest == json.loads(GOLDEN.read_text())
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_the_lease_token_is_not_in_the_manifest() -> None:
    assert TOKEN not in json.dumps(pod_manifest(SITE, SPEC))
    assert TOKEN.encode() in boot_line(SPEC)


def test_a_workspace_outside_the_volume_is_refused() -> None:
    for path in (Path("/etc"), HOME, HOME.parent / "home-of-another"):
        with pytest.raises(Unavailable, match="workspace"):
            pod_manifest(SITE, replace(SPEC, workspace=path))


def test_settings_that_a_pod_cannot_serve_stop_control_before_it_starts(tmp_path: Path) -> None:
    settings = ControlSettings(home=tmp_path, runtime="kubernetes")
    with pytest.raises(StartupError, match="CHOIR_CONTROL_PLANE"):
        make_runtime(settings, ControlSecrets(), Redactor())
    settings = settings.model_copy(
        update={"control_plane": "http", "egress_endpoint": "unix:///socks/control.sock"}
    )
    secrets = ControlSecrets(egress_token="t", egress_certificate="c")
    with pytest.raises(StartupError, match="cannot open the proxy's sockets"):
        make_runtime(settings, secrets, Redactor())
    settings = settings.model_copy(update={"egress_endpoint": "https://egress:9404"})
    with pytest.raises(StartupError, match="egress_token"):
        make_runtime(settings, ControlSecrets(), Redactor())
    with pytest.raises(StartupError, match="CHOIR_EGRESS_AGENTS"):
        make_runtime(settings, secrets, Redactor())


def test_a_pod_with_the_proxy_has_no_name_server() -> None:
    manifest = pod_manifest(SITE, SPEC, {"egress": "10.96.0.7"})
    kubernetes_validate.validate(manifest, "1.37", strict=True)
    spec: Any = manifest["spec"]
    assert spec["hostAliases"] == [{"ip": "10.96.0.7", "hostnames": ["egress"]}]
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})


def test_the_boot_line_of_a_pod_leads_to_the_proxy() -> None:
    proxy = ProxyAddress("egress:9405", "the certificate")
    boot = json.loads(boot_line(replace(SPEC, egress_key="ab" * 32), proxy))
    assert (boot["egress_address"], boot["egress_certificate"]) == (
        "egress:9405",
        "the certificate",
    )
    assert boot["egress_socket"] == ""
    assert json.loads(boot_line(SPEC))["egress_address"] == ""


def pod(state: dict[str, Any], **status: str) -> dict[str, Any]:
    """Describe a pod as the API server does."""
    statuses = [{"name": "agent", "state": state}]
    return {
        "metadata": {"uid": "1"},
        "spec": {"containers": [{"image": "an-image"}]},
        "status": {"containerStatuses": statuses, **status},
    }


def test_how_a_pod_ended_is_said_in_operators_words() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    assert describe_exit(pod(ended)) == "out of memory, exit code 137"
    assert describe_exit(pod({"terminated": {"exitCode": 3, "reason": "Error"}})) == "exit code 3"
    evicted = pod({}, phase="Failed", reason="Evicted", message="The node was low on memory.")
    assert describe_exit(evicted) == "Evicted: The node was low on memory."
    assert describe_exit(None) == "its pod was removed"
    fault = start_fault(pod({"waiting": {"reason": "ErrImagePull", "message": "no such host"}}))
    assert "an-image: no such host" in fault
    assert "CHOIR_AGENT_IMAGE" in fault
    assert start_fault(pod({"waiting": {"reason": "ContainerCreating"}})) == ""
