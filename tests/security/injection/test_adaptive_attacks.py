"""An attacker that goes on after each refusal or question gets nothing out either (GUARANTEES S34)."""

import pytest
from hypothesis import settings

from choir_common.wire.policy import AgentPolicy
from tests.security.injection.adaptive import MAX_TRIES, MOVES, Scenario
from tests.security.injection.attacks import ENCODINGS, EXITS, PRIVATE, SOURCES
from tests.security.injection.conversation import NO_DEFAULT_QUESTIONS

IS_NIGHTLY = settings().max_examples > 1_000
SEEDS = 10 if IS_NIGHTLY else 1
"""Conversations of each source and private data, under each policy."""
POLICIES = {"defaults": AgentPolicy(), "nothing asks by default": NO_DEFAULT_QUESTIONS}


def scenarios(source: str, policy: str = "nothing asks by default") -> list[Scenario]:
    return [
        Scenario(source, private, seed, POLICIES[policy])
        for private in PRIVATE
        for seed in range(SEEDS)
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("source", SOURCES)
def test_an_attacker_that_reacts_sends_nothing_private_without_a_yes(
    source: str, policy: str
) -> None:
    for scenario in scenarios(source, policy):
        attacker = scenario.play()
        assert attacker.leaked == "", scenario
        assert attacker.tries == MAX_TRIES


@pytest.mark.nightly
@pytest.mark.parametrize("source", SOURCES)
def test_without_the_rule_the_same_attacker_succeeds(source: str) -> None:
    for scenario in scenarios(source):
        attacker = scenario.play(is_protected=False)
        assert attacker.leaked != "", scenario


def test_the_attacker_uses_every_exit_encoding_and_move_and_several_lanes() -> None:
    attackers = [s.play() for source in SOURCES for s in scenarios(source)]
    tried = {pair for attacker in attackers for pair in attacker.refused}
    assert {exit_ for exit_, _ in tried} == set(EXITS)
    assert {encoding for _, encoding in tried} == set(ENCODINGS)
    assert {move for attacker in attackers for move in attacker.moves} == {
        move.__name__ for move in MOVES
    }
    assert all(len(attacker.moves) >= 6 for attacker in attackers)
    assert any(len(attacker.lanes) >= 3 for attacker in attackers)
