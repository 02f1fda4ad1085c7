"""Images and files go to the model as its API takes them, and only as they were loaded."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.servers import anthropic_replies
from tests.servers.anthropic_server import anthropic_server
from tests.servers.openai_replies import Answer
from tests.servers.openai_server import openai_server
from tests.unit.adapters import openai_stand, test_anthropic
from watchkeeper.adapters import adapter_module
from watchkeeper.adapters._attachments import is_accepted
from watchkeeper.domain.content import Attachment, Part, UserTurn
from watchkeeper.errors import EndpointFault

PNG = b"\x89PNG\r\n\x1a\n\0\0"
PDF = b"%PDF-1.7\xff"
KINDS = ("anthropic", "chat", "responses")


def attached(folder: Path, name: str, media_type: str, content: bytes) -> Attachment:
    """A file as the loader makes it."""
    path = folder / name
    path.write_bytes(content)
    return Attachment(name, media_type, hashlib.sha256(content).hexdigest(), len(content), path)


async def said(kind: str, turn: UserTurn) -> tuple[Any, int]:
    """The content of the turn as the server was told it, and how many calls it saw."""
    if kind == "anthropic":
        with anthropic_server(then=anthropic_replies.message("ok")) as server:
            async with test_anthropic.connected(server.url) as adapter:
                session = await adapter.open(test_anthropic.brief())
                await session.step(turn)
            return server.message_calls[0].body["messages"][0]["content"], len(server.calls)
    with openai_server(then=Answer("ok")) as other:
        async with openai_stand.connected(other.url, api=kind) as adapter:
            session = await adapter.open(openai_stand.brief())
            await session.step(turn)
        return other.answer_calls[0].said[0]["content"], len(other.calls)


async def refused(kind: str, turn: UserTurn) -> EndpointFault:
    """The fault that a turn meets before anything is sent."""
    if kind == "anthropic":
        with anthropic_server(then=anthropic_replies.message("ok")) as server:
            async with test_anthropic.connected(server.url) as adapter:
                with pytest.raises(EndpointFault) as caught:
                    await (await adapter.open(openai_stand.brief(turn=turn))).step(turn)
            assert server.calls == []
        return caught.value
    with openai_server(then=Answer("ok")) as other:
        async with openai_stand.connected(other.url, api=kind) as adapter:
            with pytest.raises(EndpointFault) as caught:
                await (await adapter.open(openai_stand.brief(turn=turn))).step(turn)
        assert other.calls == []
    return caught.value


async def test_parts_are_sent_in_their_order(tmp_path: Path) -> None:
    """Images and documents as bytes, text files as text below their name."""
    parts: tuple[Part, ...] = (
        "What is on it?",
        attached(tmp_path, "shot.png", "image/png", PNG),
        " ",
        attached(tmp_path, "bill.pdf", "application/pdf", PDF),
        attached(tmp_path, "rows.csv", "text/csv", "\ufeffa,ü\n".encode()),
        "And here?\ud800",
    )
    turn = UserTurn.of(parts)
    png, pdf = (base64.b64encode(one).decode() for one in (PNG, PDF))
    png_url, pdf_url = f"data:image/png;base64,{png}", f"data:application/pdf;base64,{pdf}"
    texts = ["What is on it?", "rows.csv:\n\na,ü\n", "And here?\ufffd"]
    expected = {
        "anthropic": [
            {"type": "text", "text": texts[0]},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": png},
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": pdf},
                "title": "bill.pdf",
            },
            {"type": "text", "text": texts[1]},
            {"type": "text", "text": texts[2]},
        ],
        "chat": [
            {"type": "text", "text": texts[0]},
            {"type": "image_url", "image_url": {"url": png_url}},
            {"type": "file", "file": {"filename": "bill.pdf", "file_data": pdf_url}},
            {"type": "text", "text": texts[1]},
            {"type": "text", "text": texts[2]},
        ],
        "responses": [
            {"type": "input_text", "text": texts[0]},
            {"type": "input_image", "image_url": png_url, "detail": "auto"},
            {"type": "input_file", "filename": "bill.pdf", "file_data": pdf_url},
            {"type": "input_text", "text": texts[1]},
            {"type": "input_text", "text": texts[2]},
        ],
    }
    for kind in KINDS:
        assert await said(kind, turn) == (expected[kind], 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_file_that_is_not_what_it_was_is_not_sent(kind: str, tmp_path: Path) -> None:
    """A case is what its hash says; a changed or missing file would be another case."""
    file = attached(tmp_path, "shot.png", "image/png", PNG)
    turn = UserTurn.of(("look", file))
    file.path.write_bytes(PNG + b"!")
    changed = await refused(kind, turn)
    file.path.unlink()
    gone = await refused(kind, turn)
    for fault in (changed, gone):
        assert (fault.kind, fault.is_transient) == ("attachment_changed", False)
        assert "'shot.png'" in str(fault)


@pytest.mark.parametrize("kind", KINDS)
async def test_media_type_that_the_api_does_not_take_is_refused(kind: str, tmp_path: Path) -> None:
    """Before anything is sent, with the types that it does take; so is text that is no UTF-8."""
    film = await refused(kind, UserTurn.of((attached(tmp_path, "a.mp4", "video/mp4", b"x"),)))
    assert (film.kind, film.is_transient) == ("media_refused", False)
    assert "video/mp4" in str(film)
    assert "image/png" in str(film)
    latin = await refused(kind, UserTurn.of((attached(tmp_path, "a.txt", "text/plain", b"\xfc"),)))
    assert (latin.kind, latin.is_transient) == ("media_refused", False)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_module_says_what_it_takes(kind: str) -> None:
    """So that a case can be refused when the files are read."""
    module: Any = adapter_module(kind)
    accepted = module.accepted_media()
    taken = ["image/png", "image/webp", "application/pdf", "text/x-python", "application/json"]
    assert all(is_accepted(one, accepted) for one in taken)
    assert not any(is_accepted(one, accepted) for one in ["image/tiff", "video/mp4", "text"])
