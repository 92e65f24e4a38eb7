"""The manifests of deploy/kubernetes: valid for old and new API servers, held hard, and fitting together."""

import functools
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from choir_browser.settings import BrowserSecrets
from choir_control.agents.runtimes.kubernetes.pod import LEADER
from choir_control.leadership.standby_app import STANDBY_IS_READY
from choir_control.settings import ControlSecrets, ControlSettings
from choir_egress.agent_port import server_tls
from choir_egress.settings import EgressSecrets, EgressSettings
from choir_gateway.settings import GatewaySecrets, GatewaySettings
from choir_memory.settings import MemorySecrets, MemorySettings

ROOT = Path(__file__).parents[3] / "deploy" / "kubernetes"
OVERLAYS = ("trial", "production")
IN_1_20 = {"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"}
OF_OPERATORS = {"postgresql.cnpg.io/v1"}
OLDEST, NEWEST = "1.25", "1.37"
MAY_ASK_THE_API = {"control", "setup"}

Manifest = dict[str, Any]


@functools.cache
def manifests(overlay: str) -> tuple[Manifest, ...]:
    """Return what an overlay contains, before its patches."""
    return tuple(_read(ROOT / "overlays" / overlay))


def _read(directory: Path) -> Iterator[Manifest]:
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    for base in kustomization.get("bases", []):
        yield from _read((directory / base).resolve())
    for name in kustomization["resources"]:
        yield from yaml.safe_load_all((directory / name).read_text())


def templates(overlay: str) -> list[Manifest]:
    """Return the templates of all pods."""
    kinds = ("Deployment", "StatefulSet", "Job")
    return [one["spec"]["template"] for one in manifests(overlay) if one["kind"] in kinds]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_they_are_valid(overlay: str) -> None:
    for manifest in manifests(overlay):
        if manifest["apiVersion"] not in OF_OPERATORS:
            for version in {NEWEST, OLDEST if overlay == "production" else NEWEST}:
                kubernetes_validate.validate(manifest, version, strict=True)


def test_the_trial_runs_on_an_old_cluster() -> None:
    assert {manifest["apiVersion"] for manifest in manifests("trial")} <= IN_1_20


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_held_as_hard_as_an_agents(overlay: str) -> None:
    for template in templates(overlay):
        name, spec = template["metadata"]["labels"]["app"], template["spec"]
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True, name
        assert pod["runAsUser"] > 0, name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is (name in MAY_ASK_THE_API), name
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert container["resources"]["limits"]["memory"], name
            secret = [it for it in container.get("env", []) if "secretKeyRef" in str(it)]
            assert not secret, f"a secret in the environment of {name}"


def _deployment(name: str) -> Manifest:
    (found,) = [
        one["spec"]
        for one in manifests("trial")
        if one["kind"] == "Deployment" and one["metadata"]["name"] == name
    ]
    return dict(found)


def test_gateways_share_the_channels_and_what_these_remember() -> None:
    gateway = _deployment("gateway")
    update = {"maxSurge": 1, "maxUnavailable": 0}
    assert gateway["strategy"] == {"type": "RollingUpdate", "rollingUpdate": update}
    (container,) = gateway["template"]["spec"]["containers"]
    env = {variable["name"]: variable for variable in container["env"]}
    assert env["CHOIR_GATEWAY_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    settings = GatewaySettings(console_files=Path(env["CHOIR_CONSOLE_FILES"]["value"]))
    # channels have their state beside the console's files, on the same volume
    (mount,) = [it for it in container["volumeMounts"] if it["name"] == "files"]
    assert settings.spool.parent == Path(mount["mountPath"])
    patches = list(yaml.safe_load_all((ROOT / "overlays/production/patches.yaml").read_text()))
    named = {(it["kind"], it["metadata"]["name"]): it["spec"] for it in patches}
    assert named["Deployment", "gateway"]["replicas"] == 2
    assert named["PersistentVolumeClaim", "choir-gateway"]["accessModes"] == ["ReadWriteMany"]


def test_control_is_updated_by_a_standby_and_clients_are_led_to_the_leader() -> None:
    control = _deployment("control")
    update = {"maxSurge": 1, "maxUnavailable": 0}
    assert control["strategy"] == {"type": "RollingUpdate", "rollingUpdate": update}
    (container,) = control["template"]["spec"]["containers"]
    # a rollout and a disruption budget count ready pods, and a standby is as good as the leader
    assert STANDBY_IS_READY in container["readinessProbe"]["httpGet"]["path"]
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    (service,) = [
        one["spec"]
        for one in manifests("trial")
        if one["kind"] == "Service" and one["metadata"]["name"] == "control"
    ]
    assert service["selector"][LEADER] == env["CHOIR_KUBERNETES_CLAIM"]
    assert LEADER not in control["template"]["metadata"]["labels"]
    (role,) = [
        one
        for one in manifests("trial")
        if one["kind"] == "Role" and one["metadata"]["name"] == "choir-control"
    ]
    assert "patch" in role["rules"][0]["verbs"]


def test_production_has_a_standby_that_a_drain_leaves() -> None:
    patches = yaml.safe_load_all((ROOT / "overlays/production/patches.yaml").read_text())
    (control,) = [one["spec"] for one in patches if one["metadata"]["name"] == "control"]
    assert control["replicas"] == 2
    budgets = {
        one["metadata"]["name"]: one["spec"]
        for one in manifests("production")
        if one["kind"] == "PodDisruptionBudget"
    }
    assert budgets["control"]["minAvailable"] == 1


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_probes_and_policies_point_at_pods_that_exist(overlay: str) -> None:
    apps = {template["metadata"]["labels"]["app"] for template in templates(overlay)}
    for manifest in manifests(overlay):
        if manifest["kind"] == "Service":
            assert manifest["spec"]["selector"]["app"] in apps
        if manifest["kind"] == "PodDisruptionBudget":
            assert manifest["spec"]["selector"]["matchLabels"]["app"] in apps
    for template in templates(overlay):
        for container in template["spec"]["containers"]:
            ports = {port["name"] for port in container.get("ports", [])}
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                for probe in container.get(kind, {}).values():
                    if isinstance(probe, dict) and "port" in probe:
                        assert probe["port"] in ports
    denied = [one for one in manifests(overlay) if one["metadata"]["name"] == "default-deny"]
    assert denied[0]["spec"]["podSelector"] == {}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_service_mounts_its_own_part_of_the_secrets_only(overlay: str) -> None:
    for template in templates(overlay):
        name = template["metadata"]["labels"]["app"]
        for volume in template["spec"]["volumes"]:
            if "secret" in volume:
                (item,) = volume["secret"]["items"]
                assert item["key"].split(".")[0].split("-")[0] == name


def test_the_services_accept_the_secrets_that_setup_makes() -> None:
    made = runpy.run_path(str(ROOT / "base" / "prepare.py"))["make_secrets"]()
    models = (ControlSecrets, MemorySecrets, GatewaySecrets, BrowserSecrets)
    for name, model in zip(("control", "memory", "gateway", "browser"), models, strict=True):
        assert model.model_validate_json(made[f"{name}.json"]).nats_key
    server_tls(EgressSecrets.model_validate_json(made["egress.json"]))
    control = ControlSecrets.model_validate_json(made["control.json"])
    egress = EgressSecrets.model_validate_json(made["egress.json"])
    assert (control.egress_token, control.egress_certificate) == (egress.token, egress.certificate)
    mounted = {
        item["key"]
        for overlay in OVERLAYS
        for name, value in _items(manifests(overlay))
        if name == "items"
        for item in value
    }
    assert mounted == set(made)


def test_agents_reach_the_egress_proxy_and_nothing_else() -> None:
    policies = {
        one["metadata"]["name"]: one["spec"]
        for one in manifests("production")
        if one["kind"] == "NetworkPolicy"
    }
    assert policies["agents"]["egress"] == [
        {"to": [{"podSelector": {"matchLabels": {"app": "egress"}}}], "ports": [{"port": 9405}]}
    ]
    for name, policy in policies.items():
        if "choir.managed" in str(policy.get("ingress", [])):
            assert name == "egress"


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every entry of every object in a manifest."""
    if isinstance(value, dict):
        yield from value.items()
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _items(one)


def test_patches_have_a_target_and_settings_exist() -> None:
    targets = {(one["kind"], one["metadata"]["name"]) for one in manifests("production")}
    patches = list(
        yaml.safe_load_all((ROOT / "overlays" / "production" / "patches.yaml").read_text())
    )
    assert {(one["kind"], one["metadata"]["name"]) for one in patches} <= targets
    known = {
        "control": ControlSettings,
        "memory": MemorySettings,
        "egress": EgressSettings,
        "gateway": GatewaySettings,
    }
    for template in [*templates("trial"), *(it["spec"].get("template") for it in patches)]:
        for container in template["spec"].get("containers", []) if template else []:
            settings = known.get(container["name"])
            for variable in container.get("env", []) if settings else []:
                name = variable["name"].removeprefix("CHOIR_").lower()
                assert settings is not None
                assert name in settings.model_fields or variable["name"] in ("HOME", "TMPDIR"), (
                    variable
                )
