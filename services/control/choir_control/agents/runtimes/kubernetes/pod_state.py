"""What the API server's description of a pod says: whether it runs, cannot start, or how it ended. Pure."""

from typing import Any

from choir_common.i18n import _
from choir_control.agents.runtimes.kubernetes.pod import CONTAINER_NAME
from choir_control.images.job.outcome import FAULTS

Pod = dict[str, Any]
"""A pod as the API server describes it."""

ENDED = ("Succeeded", "Failed")
IMAGE_FAULTS = frozenset(
    {"ErrImagePull", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"}
)


def uid_of(pod: Pod) -> str:
    """Return the identity of this one pod; a later pod with its name has another."""
    return str(pod["metadata"]["uid"])


def annotation(pod: Pod, name: str) -> str:
    """Return an annotation, or an empty string."""
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def is_running(pod: Pod) -> bool:
    """Return whether the agent's process runs."""
    return "running" in _container_state(pod)


def has_ended(pod: Pod) -> bool:
    """Return whether the agent's process ended; it does not start again."""
    return _phase(pod) in ENDED or "terminated" in _container_state(pod)


def is_cleared_up(pod: Pod) -> bool:
    """Return whether nothing is left to do but for its node: it ended, and was deleted."""
    return has_ended(pod) and "deletionTimestamp" in pod["metadata"]


def start_fault(pod: Pod) -> str:
    """Return why a pod cannot start until a person acts, or an empty string."""
    waiting = _container_state(pod).get("waiting") or {}
    reason = str(waiting.get("reason", ""))
    if reason not in FAULTS:
        return ""
    advice = (
        _(". Set CHOIR_AGENT_IMAGE to an image that the cluster's nodes can pull")
        if reason in IMAGE_FAULTS
        else ""
    )
    image = str(pod["spec"]["containers"][0]["image"])
    return _("{reason} for the image {image}: {value}{advice}").format(
        reason=reason, image=image, value=waiting.get("message") or _("no details"), advice=advice
    )


def start_progress(pod: Pod) -> str:
    """Return what a pod that does not run yet is waiting for."""
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    waiting = _container_state(pod).get("waiting") or {}
    return str(waiting.get("reason") or _phase(pod) or _("not scheduled"))


def exit_code(pod: Pod | None) -> int | None:
    """Return the exit code of the agent's process, or None if nobody recorded it."""
    terminated = _container_state(pod).get("terminated") if pod else None
    return int(terminated["exitCode"]) if terminated else None


def describe_exit(pod: Pod | None) -> str:
    """Return how an agent's pod ended, for operators."""
    code = exit_code(pod)
    reason = str((pod or {}).get("status", {}).get("reason") or "")
    message = str((pod or {}).get("status", {}).get("message") or "")
    if reason:
        # the node or a controller ended it: Evicted, NodeLost, Preempting
        return f"{reason}: {message or 'no details'}"
    if pod is None or code is None:
        return _("its pod was removed")
    if _container_state(pod)["terminated"].get("reason") == "OOMKilled":
        return _("out of memory, exit code {code}").format(code=code)
    return _("exit code {code}").format(code=code)


def _phase(pod: Pod) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _container_state(pod: Pod) -> dict[str, Any]:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status.get("name") == CONTAINER_NAME:
            return dict(status.get("state") or {})
    return {}
