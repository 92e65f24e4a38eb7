"""Limits that the settings give to agents."""

import os
from pathlib import Path

from choir_control.agents.runtimes.factory import process_limits
from choir_control.settings import ControlSettings


def test_an_agent_leaves_a_core_to_control_unless_the_setting_says_otherwise(
    tmp_path: Path,
) -> None:
    settings = ControlSettings(home=tmp_path)
    assert process_limits(settings).agent_cpus == max(1, (os.cpu_count() or 1) - 1)
    settings = settings.model_copy(update={"agent_cpus": 2.5})
    assert process_limits(settings).agent_cpus == 2.5
