"""The test call of a model: the input and the result of the program that makes it, and what operators see."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import WireModel
from choir_common.wire.model_config import ModelConfig
from choir_common.wire.money import UsageReport

CheckOutcome = Literal["ok", "warn", "fail"]


class ModelCheckRequest(WireModel):
    """Standard input of the program `choir_models.check_program`."""

    name: str
    """The entry in `models` of config.json."""
    model: ModelConfig
    key: str | None = Field(default=None, repr=False)
    longest_output: int | None = Field(default=None, ge=1)
    """Tokens for which money is reserved; None: the model's own limit."""
    reservation: str = ""


class ModelCheckResult(WireModel):
    """What one request to a model has shown."""

    outcome: CheckOutcome
    """`warn`: it answers, but agents can do less with it; `fail`: agents cannot work with it."""
    detail: str
    """A sentence for users: what is wrong, where, and how to fix it."""
    answered: bool = False
    duration_ms: float | None = None
    """Time of the call; None: the provider was not called."""
    model: str = ""
    """The model's name in the provider's answer."""
    usage: UsageReport | None = None
    """What the provider bills; None if nothing."""


class ModelTestResult(WireModel):
    """Result of a test call, for operators."""

    name: str
    """The entry in `models` of config.json."""
    outcome: CheckOutcome
    """`warn`: it answers, but agents can do less with it; `fail`: agents cannot work with it."""
    detail: str
    """A sentence: what is wrong, where, and the command or the setting that fixes it."""
    answered: bool
    duration_ms: float | None = None
    """Time of the call; null: the provider was not called."""
    model: str = ""
    """The model's name in the provider's answer; empty if it did not say one."""
