"""The manifests of the Jobs that build images: valid, and no more than a build and control need."""

from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import yaml

from choir_control.settings import ControlSettings

BUILDS = Path(__file__).parents[3] / "deploy" / "kubernetes" / "builds"


def manifests() -> dict[str, dict[str, Any]]:
    """Return the objects by their kind."""
    kustomization = yaml.safe_load((BUILDS / "kustomization.yaml").read_text())
    assert kustomization["namespace"] == ControlSettings.model_fields["build_namespace"].default
    found = [
        one
        for name in kustomization["resources"]
        for one in yaml.safe_load_all((BUILDS / name).read_text())
    ]
    return {one["kind"]: one for one in found}


def test_they_are_valid() -> None:
    for manifest in manifests().values():
        for version in ("1.25", "1.37"):
            kubernetes_validate.validate(manifest, version, strict=True)


def test_control_may_begin_a_build_read_its_log_and_delete_it() -> None:
    found = manifests()
    rights = {
        name: set(rule["verbs"]) for rule in found["Role"]["rules"] for name in rule["resources"]
    }
    assert rights == {
        "jobs": {"create", "get", "list", "delete"},
        "pods": {"get", "list"},
        "pods/log": {"get"},
        "pods/attach": {"create", "get"},
    }
    (subject,) = found["RoleBinding"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "choir-control", "namespace": "choir"}


def test_nothing_reaches_a_build_and_it_reaches_no_private_address() -> None:
    policy = manifests()["NetworkPolicy"]["spec"]
    assert policy["podSelector"] == {}
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in policy
    names, public = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    everywhere, six = (one["ipBlock"] for one in public["to"])
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= {
        *everywhere["except"]
    }
    assert six == {"cidr": "2000::/3"}
