"""Writing: prompt -> plan -> story. Sampling, fast decoding, streaming, files of stories.

Names are loaded when first asked for: reading prompts and checking options needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Request": "discodvt.writing.requests",
    "Settings": "discodvt.writing.requests",
    "Segment": "discodvt.writing.story",
    "WrittenStory": "discodvt.writing.story",
    "StoryStream": "discodvt.writing.writer",
    "StoryWriter": "discodvt.writing.writer",
}
__all__ = ["Request", "Segment", "Settings", "StoryStream", "StoryWriter", "WrittenStory"]

if TYPE_CHECKING:
    from discodvt.writing.requests import Request, Settings
    from discodvt.writing.story import Segment, WrittenStory
    from discodvt.writing.writer import StoryStream, StoryWriter


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discodvt.writing' has no attribute {name!r}")
