"""How many pictures a prompt shows, and how they count."""

import orjson
import pytest

from choir_agent.models.picture_model import MAX_PICTURES, PictureModel, max_pictures
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.working_memory.token_estimator import PICTURE_SIZE
from choir_common.wire.attachments import PictureRef, ReceivedFile
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import UserMessageStarted
from choir_models.model import NO_LISTENER, Completion, OutputListener, Prompt
from choir_models.pictures import picture_message
from tests.unit.agent.told_session import ToldSession


class Eye:
    """A model that counts the pictures it is shown, and the source of their content."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        parts = [part for raw in prompt.messages for part in orjson.loads(raw)["content"]]
        self.shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return Completion("", (), "m", "stop", 0, 0, 0.0)

    async def load_picture(self, picture: PictureRef) -> bytes:
        return b"data:" + picture.path.encode()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("window", "limit"), [(8_192, 1), (16_384, 2), (32_768, 5), (200_000, MAX_PICTURES)]
)
async def test_a_small_window_shows_fewer_pictures_and_always_the_newest(
    window: int, limit: int
) -> None:
    model = ModelConfig(model="m", context_window=window)
    assert max_pictures(model) == limit
    for count in (1, limit, limit + 1, 3 * limit + 1):
        eye = Eye()
        pictures = [PictureRef(path=f"{number}.png") for number in range(count)]
        prompt = Prompt((picture_message({"role": "user"}, "see", pictures),))
        await PictureModel(eye, eye).think(model, None, prompt)
        assert 0 < len(eye.shown) <= limit and eye.shown[-1] == f"data:{count - 1}.png"


def test_the_pictures_of_the_newest_message_count_for_a_model_that_sees() -> None:
    session = ToldSession()
    file = ReceivedFile(name="a.png", kind="photo", mime="image/png", size=10, path="in/a.png")
    session.append(
        "edge",
        UserMessageStarted(turn_id="t1", inbox_id="i1", dm="d", text="see", attachments=(file,)),
    )
    session.edge()
    blind = session.assembler.fixed_size(session.state, "edge")
    session.assembler.edge(session.state, b"[]", history=HistoryFormat(shows_pictures=True))
    seeing = session.assembler.fixed_size(session.state, "edge")
    # without the remark that it cannot be seen
    assert abs(seeing - blind - PICTURE_SIZE) < 300
