"""The part of the configuration that memory receives, and the effect of its changes."""

import pytest

from choir_common.wire.config import Config
from choir_common.wire.memory_config import RetentionConfig
from choir_control.configuration.current import ConfigSnapshot
from choir_control.configuration.diff import diff_configs

MODELS = {
    "free": {"model": "f", "endpoint": "http://127.0.0.1:1/v1"},
    "paid": {"model": "p", "endpoint": "http://127.0.0.1:1/v1", "secret": "key"},
    "other": {"model": "o", "endpoint": "http://127.0.0.1:1/v1", "secret": "another-key"},
    "sister": {"model": "s", "endpoint": "http://127.0.0.1:1/v1", "secret": "key"},
}


def make(model: str | None = None, **agents: object) -> Config:
    defaults = {"workspace": "w", "llm": "free", "dm": "d"}
    return Config.model_validate(
        {
            "agents": {name: {"defaults": defaults, **more} for name, more in agents.items()},  # type: ignore[dict-item]
            "workspaces": {"w": {"path": "/tmp/w"}},
            "models": MODELS,
            "gateways": {"console": {"type": "console"}},
            "dms": {"d": {"gateway": "console", "user_id": "u"}},
            "memory": {"model": model},
        },
        strict=False,
    )


def test_memory_is_told_its_model_and_who_does_not_keep_everything() -> None:
    orders = ConfigSnapshot(
        3, make("paid", main={}, brief={"retention": {"turns": 30}})
    ).memory_orders()
    assert orders.model is not None and (orders.model.model, orders.model.secret) == ("p", "key")
    assert orders.retention == {"brief": RetentionConfig(turns=30)}


@pytest.mark.parametrize(
    ("before", "after", "category"),
    [
        ("paid", "sister", "hot-reload"),
        ("paid", "free", "hot-reload"),
        ("paid", None, "hot-reload"),
        (None, "free", "hot-reload"),
        ("paid", "other", "restart-required"),
        (None, "paid", "restart-required"),
    ],
)
def test_another_model_for_memory_takes_a_restart_only_where_it_has_another_key(
    before: str | None, after: str | None, category: str
) -> None:
    (change,) = diff_configs(make(before), make(after))
    assert (change.path, change.category) == ("memory.model", category)
    assert ("choirctl down, then up" in change.note) == (category == "restart-required")
    assert ("next maintenance pass" in change.note) == (category == "hot-reload")
