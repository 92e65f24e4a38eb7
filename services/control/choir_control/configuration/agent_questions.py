"""Conversations for questions between agents, as a part of the configuration, and their faults. Pure.

Each pair of an agent and one that it may ask has a conversation of its own. The agent that answers serves it
beside its other conversations. It is on a gateway of type console, so that operators can read it.
"""

from collections.abc import Iterator

from choir_common.i18n import _
from choir_common.wire.agent_questions import QUESTION_DM_PREFIX, question_dm
from choir_common.wire.channel_config import DmConfig
from choir_common.wire.config import Config
from choir_control.configuration.api_clients import find_console_gateway

MAX_DM_NAME = 64


def add_question_dms(config: Config) -> Config:
    """Return the configuration with the conversations of all pairs."""
    gateway = find_console_gateway(config)
    pairs = [(asking, it) for asking, agent in config.agents.items() for it in agent.may_ask]
    if gateway is None or not pairs:
        return config
    dms, agents = dict(config.dms), dict(config.agents)
    for asking, answering in sorted(pairs):
        dm = question_dm(asking, answering)
        if answering not in agents or dm in dms:
            continue
        # the name is the user, too: each conversation has an identity of its own
        dms[dm] = DmConfig(gateway=gateway, user_id=dm)
        agent = agents[answering]
        conversations = (*agent.conversations, dm)
        agents[answering] = agent.model_copy(update={"conversations": conversations})
    return config.model_copy(update={"dms": dms, "agents": agents})


def may_ask(config: Config, agent_id: str) -> tuple[str, ...]:
    """Return the agents that an agent may ask, by name."""
    own = config.agents.get(agent_id)
    return tuple(sorted(own.may_ask)) if own else ()


def find_question_faults(config: Config) -> Iterator[str]:
    """Yield every fault of `agents.NAME.may_ask`, with the path in the file and the remedy."""
    for dm, user in config.dms.items():
        if dm.startswith(QUESTION_DM_PREFIX) and user.user_id != dm:  # not one that Choir added
            yield (
                _(
                    "dms.{dm}: names that begin with {question_dm_prefix} belong to questions between "
                    "agents; choose another"
                ).format(dm=dm, question_dm_prefix=QUESTION_DM_PREFIX)
            )
    for asking, agent in config.agents.items():
        path = f"agents.{asking}.may_ask"
        if agent.may_ask and find_console_gateway(config) is None:
            yield _(
                "{path}: questions need a gateway of type console in `gateways`; add one"
            ).format(path=path)
        for answering in dict.fromkeys(agent.may_ask):
            yield from _faults_of_pair(config, path, asking, answering)


def _faults_of_pair(config: Config, path: str, asking: str, answering: str) -> Iterator[str]:
    if answering == asking:
        yield _("{path}: {answering!r} is the agent itself; name others").format(
            path=path, answering=answering
        )
    elif answering not in config.agents:
        names = ", ".join(sorted(config.agents))
        yield _(
            "{path}: there is no {answering!r} in agents (it has {names}); correct the name"
        ).format(path=path, answering=answering, names=names)
    elif config.agents[asking].may_ask.count(answering) > 1:
        yield _("{path}: {answering!r} is named twice; name it once").format(
            path=path, answering=answering
        )
    elif len(question_dm(asking, answering)) > MAX_DM_NAME:
        yield (
            _(
                "{path}: the names {asking!r} and {answering!r} are too long together; they may have "
                "{max_dm_name} characters"
            ).format(
                path=path,
                asking=asking,
                answering=answering,
                max_dm_name=MAX_DM_NAME - len(question_dm("", "")),
            )
        )
