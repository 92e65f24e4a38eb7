"""The first prompt of an agent as `choirctl init` makes it: what it costs before a word was said."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import orjson

from choir_agent.models.tokenizer import Tokenizer
from choir_control.configuration.identity_files import write_identity_files
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.strict_providers import lenient, strict_provider

MOST_TOKENS = 4_000


async def test_the_first_prompt_takes_four_thousand_tokens_at_most(tmp_path: Path) -> None:
    identity = write_identity_files(tmp_path, "main", "")
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        shutil.copytree(identity, control.choir_dir, dirs_exist_ok=True)
        # no accounts, no repository; the browser and the proposals are there
        control.bound = {"has_repository": False, "timezone": "Europe/Berlin"}
        async with running_agent(control):
            await control.say("hello there", sent_at=datetime.now(UTC))
            await control.replied()
    (body,) = provider.bodies
    assert "choir_web_browse" in str(body["tools"])
    assert "personal agent that runs on your user's own machine" in str(body["messages"])
    sent = orjson.dumps([body["messages"], body["tools"]]).decode()
    counts = await Tokenizer().count(sent)
    assert counts is not None and counts[0] <= MOST_TOKENS, counts
