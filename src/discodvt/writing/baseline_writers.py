"""Writers of the baselines that need more than a prompt: BART-CVAE draws a latent, Aristotelian Rescoring a plot.

`StoryWriter.from_pretrained` opens them; both are a `StoryWriter` with one thing changed.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from discodvt.baselines.plots import source_text, strip_tags
from discodvt.writing.sampling import SamplingParams, stream_key
from discodvt.writing.story import Request, Segment, Story

if TYPE_CHECKING:
    from discodvt.writing.detokenizer import GrowingText
    from discodvt.writing.loading import LoadedWriter
    from discodvt.writing.story_batch import StoryDraft
    from discodvt.writing.writer import StoryWriter

RESCORING = "rescoring.json"
KEPT_PLOTS = 1024  # who asks for the plots of stories does so before or after they are written
NOTHING = "."  # a story of tags alone: scores need a text


def baseline_writer(parts: "LoadedWriter") -> "StoryWriter | None":
    """The writer of a baseline, where the checkpoint is one of those that need their own."""
    checkpoint = parts.checkpoint
    if checkpoint.kind == "discodvt-cvae":
        return _cvae_writer()(parts)
    if (checkpoint.directory / RESCORING).exists():
        return _rescoring_writer()(parts)
    return None


def _cvae_writer() -> "type[StoryWriter]":
    import torch

    from discodvt.baselines.cvae_model import BartCVAE
    from discodvt.writing.writer import StoryWriter

    class CVAEWriter(StoryWriter):
        """One z of the prior network for each story, the same at every position."""

        def __init__(self, parts: "LoadedWriter") -> None:
            super().__init__(parts)
            self._cvae: BartCVAE = parts.checkpoint.load(BartCVAE, device=self.device)

        @torch.inference_mode()
        def follow(self, draft: "StoryDraft", plan: tuple[int, ...]) -> None:
            super().follow(draft, plan)
            request = draft.request
            key = stream_key(request.seed, request.index, request.prompt.strip(), "latent")
            drawn = torch.Generator().manual_seed(key % 2**63)
            noise = torch.randn(1, self._cvae.config.latent_dimensions, generator=drawn).to(self.device)
            prompt = torch.tensor([list(draft.prompt)], device=self.device)
            z = self._cvae.draw(prompt, torch.ones_like(prompt), noise)
            draft.latent = self._cvae.latent.at_positions(z, draft.most)[0]

    return CVAEWriter


def _rescoring_writer() -> "type[StoryWriter]":
    from discodvt.baselines.aristotle import open_drawer
    from discodvt.writing.writer import StoryWriter

    class RescoringWriter(StoryWriter):
        """A plot for each prompt, drawn under the rescorers; then a story from both, its tags taken off."""

        keep_tags = False  # for whoever measures how a story follows its plot

        def __init__(self, parts: "LoadedWriter") -> None:
            super().__init__(parts)
            self._drawer: Any = open_drawer(parts.checkpoint.directory)
            self._drawn = lru_cache(maxsize=KEPT_PLOTS)(self._drawer.draw)

        def plot(self, request: Request) -> str:
            """The plot that a request is written from."""
            key = stream_key(request.seed, request.index, request.prompt.strip(), "plot")
            drawn: str = self._drawn(request.prompt, seed=key % 2**31)
            return drawn

        def draft(self, request: Request, params: SamplingParams) -> "StoryDraft":
            plotted = replace(request, prompt=source_text(request.prompt, self.plot(request)))
            draft = super().draft(plotted, params)
            draft.request = request
            return draft

        def shown(self, draft: "StoryDraft", grown: "GrowingText") -> tuple[str, tuple[Segment, ...]]:
            text, segments = super().shown(draft, grown)
            return strip_tags(text).strip(), segments

        def story(self, draft: "StoryDraft") -> Story:
            story = super().story(draft)
            if self.keep_tags:
                return story
            return replace(story, text=strip_tags(story.text).strip() or NOTHING)

    return RescoringWriter
