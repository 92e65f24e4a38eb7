"""choird as a process: it starts in order, refuses what it cannot serve, and stops on SIGTERM."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import httpx2
import pytest

from choir_common.wire.operator import HOST_LACKS
from tests.service.control.world import OPERATOR_TOKEN, World, a_config, until

WITHOUT_NAMESPACES = """
import os, sys
from choir_common.confinement import seccomp
from choir_common.confinement.kernel import PR_SET_NO_NEW_PRIVS, Kernel
kernel = Kernel()
kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
filter = seccomp.build_filter(kernel.machine, offline=False, tracing=True)
seccomp.install_filter(kernel, filter)
os.execv(sys.executable, [sys.executable, "-m", "choir_control"])
"""
"""Starts choird as in a container with Docker's default profile: no namespaces, no mounts."""


async def spawn(
    world: World, *, program: Sequence[str] = ("-m", "choir_control"), **more: str
) -> Process:
    """Start `python -m choir_control` in the world's home, secrets on standard input."""
    env = {
        "PATH": os.environ["PATH"],
        "CHOIR_HOME": str(world.home),
        "CHOIR_POSTGRES_DSN": world.settings.postgres_dsn,
        "CHOIR_NATS_URL": world.settings.nats_url,
        "CHOIR_HTTP_PORT": str(world.settings.http_port),
        "CHOIR_SECRETS_FILE": "/dev/stdin",
        **more,
    }
    read_end, write_end = os.pipe()
    os.write(write_end, world.secrets.model_dump_json().encode())
    os.close(write_end)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *program),
            env=env,
            stdin=read_end,
            stdout=PIPE,
            stderr=PIPE,
        )
    finally:
        os.close(read_end)


async def refusal(world: World, **more: str) -> str:
    """Start choird, expect it to give up with exit code 1, and return the one line it told the person."""
    said = await refusal_lines(world, **more)
    assert len(said) == 1, said
    return said[0]


async def refusal_lines(world: World, **more: str) -> list[str]:
    """Start choird, expect it to give up with exit code 1, and return what it told the person."""
    process = await spawn(world, **more)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1 and out == b""
    return [line for line in err.decode().splitlines() if not line.startswith("{")]


async def test_it_logs_each_step_serves_and_stops_on_sigterm(stopped: World) -> None:
    config = a_config(stopped.home)
    config["agents"]["main"]["autostart"] = False
    stopped.settings.config_file.write_text(json.dumps(config))
    process = await spawn(stopped)

    async def ready() -> bool:
        assert process.returncode is None
        try:
            return await stopped.is_ready()
        except httpx2.HTTPError:
            return False

    await until(ready, 60)
    assert (await stopped.get("/v1/status")).json()["config_version"] == 1
    process.send_signal(signal.SIGTERM)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in err.decode().splitlines()]
    steps = [line["message"] for line in lines]
    for step in (
        "configuration read",
        "listening",
        "database connected",
        "database schema ready",
        "sessions in order",
        "choird ready",
        "choird is stopping",
    ):
        assert step in steps
    assert OPERATOR_TOKEN not in err.decode()


async def test_what_a_host_lacks_is_named_by_readyz_the_status_and_the_log(stopped: World) -> None:
    process = await spawn(stopped, program=("-c", WITHOUT_NAMESPACES))
    details: list[str] = []

    async def named() -> bool:
        assert process.returncode is None
        with contextlib.suppress(httpx2.HTTPError):
            parts = (await stopped.get("/readyz")).json()["parts"]
            details[:] = [part["detail"] for part in parts if part["name"] == "runtime"]
        # what limits tool calls is known once the first agent has started
        return "tool calls are limited by " in "".join(details)

    try:
        await until(named)
        status = (await stopped.get("/v1/status")).json()["parts"]
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), 60)
    lacks, _, limits = details[0].rpartition("; ")
    assert lacks.startswith(f"{HOST_LACKS}: mount and network namespaces (")
    assert "without the egress proxy" in lacks
    assert limits.startswith("tool calls are limited by ")
    assert [part["detail"] for part in status if part["name"] == "runtime"] == details
    lines = [json.loads(line) for line in err.decode().splitlines()]
    (warning,) = [line for line in lines if line["message"].startswith("this host does not")]
    assert warning["level"] == "warning"
    assert f"{HOST_LACKS}: {'; '.join(warning['missing'])}" == lacks


async def test_a_config_that_does_not_fit_is_named_with_its_place(stopped: World) -> None:
    file = stopped.settings.config_file
    config = a_config(stopped.home)
    config["agents"]["main"]["defaults"]["workspace"] = "nowhere"
    config["crash_detection_threshold_ms"] = 900
    file.write_text(json.dumps(config))
    where, workspace, threshold, effect = await refusal_lines(stopped)
    assert str(file) in where and effect == "Nothing was changed."
    assert workspace.startswith("- agents.main.defaults.workspace: ") and "'nowhere'" in workspace
    assert threshold.startswith("- crash_detection_threshold_ms: ")


@pytest.mark.nightly  # the test above, and tests/unit/control/test_configuration.py for each kind of mistake
async def test_a_config_that_is_missing_cut_or_strange_is_named(stopped: World) -> None:
    file = stopped.settings.config_file
    file.unlink()
    assert "choirctl init" in await refusal(stopped)
    file.write_text("{")
    assert str(file) in await refusal(stopped)
    file.write_text(json.dumps({**a_config(stopped.home), "surprise": 1}))
    assert "surprise" in await refusal(stopped)


async def test_a_taken_port_and_a_wrong_password_are_sentences(stopped: World) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", stopped.settings.http_port))
        other.listen()
        said = await refusal(stopped)
        assert str(stopped.settings.http_port) in said and "CHOIR_HTTP_PORT" in said
        assert not stopped.settings.control_socket.exists()
    stopped.secrets = stopped.secrets.model_copy(update={"postgres_password": "wrong-password"})
    said = await refusal(stopped)
    assert "password" in said and "wrong-password" not in said


async def test_other_machines_are_served_only_with_an_operator_token(stopped: World) -> None:
    stopped.secrets = stopped.secrets.model_copy(update={"operator_token": None})
    assert "operator token" in await refusal(stopped, CHOIR_HTTP_HOST="0.0.0.0")


@pytest.mark.nightly  # the tests above have a value of config.json, and a port that is taken
async def test_a_setting_of_the_environment_that_does_not_fit_is_named(stopped: World) -> None:
    assert "runtime" in await refusal(stopped, CHOIR_RUNTIME="vm")
    assert "http_port" in await refusal(stopped, CHOIR_HTTP_PORT="many")
