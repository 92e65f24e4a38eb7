"""Start and removal of one pod, each to its confirmed end."""

import asyncio
import contextlib
import time
from collections.abc import Mapping

import structlog

from choir_common.errors import Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_control.agents.runtimes.kubernetes.api import PodApi
from choir_control.agents.runtimes.kubernetes.pod_state import (
    Pod,
    describe_exit,
    has_ended,
    is_cleared_up,
    is_running,
    start_fault,
    start_progress,
    uid_of,
)

log = structlog.get_logger()

START_S = 180.0
"""Time for a node to be found or added, and to pull the image, in seconds."""
FIRST_POLL_S, LONGEST_POLL_S = 0.1, 0.5
REMOVED_WITHIN_S = 30.0
ATTACH_ATTEMPTS = 5


async def start_pod(
    api: PodApi, manifest: JsonObject, first_line: bytes, others: Mapping[str, str]
) -> Pod:
    """Create a pod, wait until it runs, and write its whole standard input.

    `others` are the labels of its agent's pods. Raises Conflict when one of them runs, and Unavailable. No
    pod is left after an error.
    """
    await _refuse_second(api, others)
    created = await api.create(manifest)
    name, uid = str(created["metadata"]["name"]), uid_of(created)
    try:
        pod = await _await_running(api, name, uid)
        await _write_input(api, name, first_line)
    except BaseException:
        # also when cancelled: a pod without its boot line would wait permanently
        await asyncio.shield(_remove_quietly(api, name, uid))
        raise
    return pod


async def remove_pod(api: PodApi, name: str, uid: str, grace_s: int, confirm_s: float) -> None:
    """Delete a pod and wait until its node has confirmed that its processes ended.

    The pod may stay with the API server for 10 s more, while its node clears up volumes. If the node has not
    confirmed the end `confirm_s` seconds after the grace, the pod is deleted without it: the node is lost or
    cut off, and what an agent there still writes to the log is refused by its epoch. Raises Unavailable.
    """
    await api.delete(name, uid, grace_s)
    if await _await_end(api, name, uid, grace_s + confirm_s):
        return
    log.warning("the node of a pod does not confirm its end, deleting it without", pod=name)
    await api.delete(name, uid, 0)
    await _await_end(api, name, uid, confirm_s)


async def _refuse_second(api: PodApi, labels: Mapping[str, str]) -> None:
    """Remove pods of the agent that ended. Raises Conflict if one runs, and Unavailable."""
    for pod in (await api.list_pods(labels)).pods:
        name = str(pod["metadata"]["name"])
        if not has_ended(pod):
            raise Conflict(_("The pod {name} already runs.").format(name=name))
        if not is_cleared_up(pod):
            await api.delete(name, uid_of(pod), 1)


async def _await_running(api: PodApi, name: str, uid: str) -> Pod:
    """Return the pod as soon as its process runs. Raises Unavailable."""
    deadline, pause_s = time.monotonic() + START_S, FIRST_POLL_S
    while True:
        pod = await api.read(name)
        if pod is None or uid_of(pod) != uid:
            raise Unavailable(_("The pod {name} was deleted while it started.").format(name=name))
        if is_running(pod):
            return pod
        if has_ended(pod):
            raise Unavailable(
                _("The pod {name} ended while it started: {reason}.").format(
                    name=name, reason=describe_exit(pod)
                )
            )
        if fault := start_fault(pod):
            raise Unavailable(
                _("The pod {name} cannot start: {fault}.").format(name=name, fault=fault)
            )
        if time.monotonic() > deadline:
            raise Unavailable(
                _(
                    "The pod {name} did not start within {start_s:.0f} s ({state}). `kubectl "
                    "describe pod {name}` has the reason."
                ).format(name=name, start_s=START_S, state=start_progress(pod))
            )
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_POLL_S, pause_s * 1.5)


async def _write_input(api: PodApi, name: str, first_line: bytes) -> None:
    """Write the boot line; a node may accept the connection a moment after it reports the process."""
    for attempt in range(1, ATTACH_ATTEMPTS):
        with contextlib.suppress(Unavailable):
            await api.write_input(name, first_line)
            return
        await asyncio.sleep(FIRST_POLL_S * 2**attempt)
    await api.write_input(name, first_line)


async def _await_end(api: PodApi, name: str, uid: str, within_s: float) -> bool:
    deadline, pause_s = time.monotonic() + within_s, FIRST_POLL_S
    while True:
        pod = await api.read(name)
        if pod is None or uid_of(pod) != uid or has_ended(pod):
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_POLL_S, pause_s * 1.5)


async def _remove_quietly(api: PodApi, name: str, uid: str) -> None:
    try:
        await remove_pod(api, name, uid, 1, REMOVED_WITHIN_S)
    except Unavailable as error:
        log.warning("cannot remove a pod that did not start", pod=name, error=error.message)
