"""A model wrapper that fills the pictures and PDFs into a prompt just before it is sent."""

from dataclasses import replace
from typing import Protocol

from choir_agent.working_memory.token_estimator import (
    BYTES_PER_TOKEN,
    PDF_PAGE_SIZE,
    PICTURE_SIZE,
)
from choir_common.wire.attachments import PictureRef
from choir_common.wire.config import ModelConfig
from choir_models.abilities import reads_pdfs
from choir_models.model import NO_LISTENER, ChatModel, Completion, OutputListener, Prompt
from choir_models.pictures import fill_pdfs, fill_pictures, find_pdfs, find_pictures

MAX_PICTURES = 20
"""Pictures in one prompt; providers take 20 to 100."""
WINDOW_SHARE = 4
"""The part (1/n) of the context window that pictures may take."""
MAX_PDF_PAGES = 50
MAX_PDF_BYTES = 3_000_000
"""Of one PDF; a request may have 20 MB at Gemini, where a third is added by base64."""
MAX_PDFS = 4
"""PDFs in one prompt; older ones are named only."""
OLDER_PDF = "[Choir] An older PDF was here, choir.fs.read reads its text: "
LEFT_OUT = "[Choir] An older picture was here: "


class PictureSource(Protocol):
    """Pictures of the workspace."""

    async def load_picture(self, picture: PictureRef) -> str | bytes:
        """Return a data URI (bytes), or a remark why the picture is not shown (text)."""
        ...

    async def load_pdf(self, path: str) -> str | bytes:
        """Return a data URI (bytes), or a remark why the PDF is not shown (text)."""
        ...

    async def close(self) -> None: ...


def max_pictures(model: ModelConfig) -> int:
    """Return the number of pictures in one prompt; in a small window they leave room for the rest."""
    tokens = PICTURE_SIZE // BYTES_PER_TOKEN
    return min(MAX_PICTURES, max(1, model.window_tokens // WINDOW_SHARE // tokens))


def max_pdf_pages(model: ModelConfig) -> int:
    """Return the pages of the longest PDF that a model gets as it is; 0 if it reads none."""
    room = model.window_tokens // WINDOW_SHARE * BYTES_PER_TOKEN // PDF_PAGE_SIZE
    return min(MAX_PDF_PAGES, room) if reads_pdfs(model) else 0


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
            content = await self._load(pictures, max_pictures(settings))
            prompt = replace(prompt, messages=fill_pictures(prompt.messages, content))
        pdfs = list(dict.fromkeys(find_pdfs(prompt.messages)))
        if pdfs:
            content_by_path: dict[str, str | bytes] = {
                path: OLDER_PDF + path for path in pdfs[:-MAX_PDFS]
            }
            for path in pdfs[-MAX_PDFS:]:
                content_by_path[path] = await self._source.load_pdf(path)
            prompt = replace(prompt, messages=fill_pdfs(prompt.messages, content_by_path))
        return await self._model.think(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close the model and the source."""
        await self._model.close()
        await self._source.close()

    async def _load(self, pictures: list[PictureRef], limit: int) -> dict[PictureRef, str | bytes]:
        # The oldest are left out in groups, so that the prompt's prefix seldom changes.
        group = max(1, limit // 2)
        surplus = max(0, len(pictures) - limit)
        left_out = -(-surplus // group) * group
        content: dict[PictureRef, str | bytes] = {
            picture: LEFT_OUT + picture.path for picture in pictures[:left_out]
        }
        for picture in pictures[left_out:]:
            content[picture] = await self._source.load_picture(picture)
        return content
