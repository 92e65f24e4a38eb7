"""A model wrapper that fills the pictures into a prompt just before it is sent."""

from dataclasses import replace
from typing import Protocol

from choir_common.wire.attachments import PictureRef
from choir_common.wire.config import ModelConfig
from choir_models.model import NO_LISTENER, ChatModel, Completion, OutputListener, Prompt
from choir_models.pictures import fill_pictures, find_pictures

MAX_PICTURES = 20
"""Pictures in one prompt; providers take 20 to 100."""
STEP = 10
"""Beyond the limit the oldest are left out in groups, so that the prompt's prefix seldom changes."""
LEFT_OUT = "[Choir] An older picture was here: "


class PictureSource(Protocol):
    """Pictures of the workspace."""

    async def load_picture(self, picture: PictureRef) -> str | bytes:
        """Return a data URI (bytes), or a remark why the picture is not shown (text)."""
        ...

    async def close(self) -> None: ...


class PictureModel:
    """A model that gets the content of the pictures its prompt refers to."""

    def __init__(self, model: ChatModel, source: PictureSource) -> None:
        self._model = model
        self._source = source

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; raises the errors of `ChatModel.think`."""
        pictures = list(dict.fromkeys(find_pictures(prompt.messages)))
        if pictures:
            content = await self._load(pictures)
            prompt = replace(prompt, messages=fill_pictures(prompt.messages, content))
        return await self._model.think(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close the model and the source."""
        await self._model.close()
        await self._source.close()

    async def _load(self, pictures: list[PictureRef]) -> dict[PictureRef, str | bytes]:
        surplus = max(0, len(pictures) - MAX_PICTURES)
        left_out = -(-surplus // STEP) * STEP
        content: dict[PictureRef, str | bytes] = {
            picture: LEFT_OUT + picture.path for picture in pictures[:left_out]
        }
        for picture in pictures[left_out:]:
            content[picture] = await self._source.load_picture(picture)
        return content
