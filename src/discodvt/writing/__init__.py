"""Writing: prompt -> plan -> story. Sampling, fast decoding, streaming, files of stories.

Names are loaded when first asked for: reading prompts and checking options needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Request": "discodvt.writing.story",
    "SamplingParams": "discodvt.writing.sampling",
    "Segment": "discodvt.writing.story",
    "Story": "discodvt.writing.story",
    "StoryBatch": "discodvt.writing.story_batch",
    "StoryStream": "discodvt.writing.story_batch",
    "StoryWriter": "discodvt.writing.writer",
}
__all__ = ["Request", "SamplingParams", "Segment", "Story", "StoryBatch", "StoryStream", "StoryWriter"]

if TYPE_CHECKING:
    from discodvt.writing.sampling import SamplingParams
    from discodvt.writing.story import Request, Segment, Story
    from discodvt.writing.story_batch import StoryBatch, StoryStream
    from discodvt.writing.writer import StoryWriter


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discodvt.writing' has no attribute {name!r}")
