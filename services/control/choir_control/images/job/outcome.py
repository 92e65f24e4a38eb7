"""What the API server says about a build: how far it is, its result, or why it failed. Pure."""

from typing import Any

from pydantic import ValidationError

from choir_common.errors import ChoirError, InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_control.images.job.manifest import BUILD_STEP, FETCH, PUSH, STEPS, BuiltImage

Object = dict[str, Any]
"""A Job or a pod as the API server describes it."""

MAX_REASON = 800
FAULTS = frozenset(
    {
        "ErrImagePull",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Reasons for which a container waits and which need a person."""
OUT_OF_MEMORY = "OOMKilled"
FAILED = _("The image cannot be built: {reason}")


def has_begun(pod: Object, step: str) -> bool:
    """Return whether a step runs or has ended."""
    return bool(_state(pod, step).keys() & {"running", "terminated"})


def has_finished(job: Object, pod: Object | None) -> bool:
    """Return whether the build has ended, well or not."""
    if pod is not None and pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(_failure(job))


def start_fault(pod: Object) -> ChoirError | None:
    """Return why a step cannot start until a person acts."""
    for step in STEPS:
        waiting = _state(pod, step).get("waiting") or {}
        if waiting.get("reason") in FAULTS:
            return Unavailable(
                _(
                    "The build cannot start: {reason}: {detail}. Set CHOIR_BUILDER_IMAGE to an image "
                    "that the cluster's nodes can pull."
                ).format(reason=waiting["reason"], detail=waiting.get("message") or _("no details"))
            )
    return None


def result(job: Object, pod: Object | None) -> BuiltImage:
    """Return the result of a build that has ended. Raises InvalidRequest and Unavailable if it failed."""
    if fault := _fault(job, pod):
        raise fault
    text = _message(pod, PUSH) or _message(pod, FETCH)
    try:
        return BuiltImage.model_validate_json(text)
    except ValidationError as error:
        raise Unavailable(_("The build's pod ended without a result. Try again.")) from error


def is_found(pod: Object | None) -> bool:
    """Return whether the registry had the image already."""
    return not _message(pod, PUSH)


def _fault(job: Object, pod: Object | None) -> ChoirError | None:
    if _failure(job).get("reason") == "DeadlineExceeded":
        return InvalidRequest(FAILED.format(reason=_("timeout (CHOIR_BUILD_WITHIN_S).")))
    status = (pod or {}).get("status", {})
    if status.get("reason") == "Evicted":
        return InvalidRequest(
            FAILED.format(
                reason=_("{reason} (CHOIR_BUILD_DISK_MB).").format(
                    reason=status.get("message") or _("its pod was evicted")
                )
            )
        )
    for step in STEPS:
        end = _state(pod, step).get("terminated") or {}
        if end and end["exitCode"] != 0:
            return _step_fault(step, str(end.get("reason")), _message(pod, step))
    if status.get("phase") != "Succeeded":
        return Unavailable(
            _("The build's pod is gone: it was deleted, or its node was lost. Build again.")
        )
    return None


def _step_fault(step: str, reason: str, message: str) -> ChoirError:
    text = message.strip()[:MAX_REASON] or reason
    if reason == OUT_OF_MEMORY:
        return InvalidRequest(FAILED.format(reason=_("out of memory (CHOIR_BUILD_MEMORY_MB).")))
    if step == BUILD_STEP:
        return InvalidRequest(FAILED.format(reason=text))
    if step == PUSH:
        return Unavailable(
            _("The image cannot be pushed to CHOIR_BUILD_REPOSITORY: {text}").format(text=text)
        )
    return Unavailable(
        _("The agent's image cannot be read from its registry: {text}").format(text=text)
    )


def _failure(job: Object) -> Object:
    for condition in job.get("status", {}).get("conditions") or []:
        if condition.get("type") == "Failed" and condition.get("status") == "True":
            return dict(condition)
    return {}


def _message(pod: Object | None, step: str) -> str:
    return str((_state(pod, step).get("terminated") or {}).get("message") or "")


def _state(pod: Object | None, step: str) -> Object:
    status = (pod or {}).get("status", {})
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or []:
            if container.get("name") == step:
                return dict(container.get("state") or {})
    return {}
