"""Stories of a studio in this process that go no further than a test lets them."""

import time
from threading import Event

import pytest

from discodvt.studio.scribe import Scribe


class HeldStories:
    """When all have `most` subwords they wait, `come` is set, and the server goes on to answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.most, self.steps, self.come = 5, 0, Event()
        step = Scribe._step

        def step_or_wait(scribe: Scribe) -> None:
            if all(len(draft.symbols) >= self.most for draft in scribe._growing):
                self.come.set()
                time.sleep(0.01)
            else:
                self.steps += 1
                step(scribe)

        patch.setattr(Scribe, "_step", step_or_wait)
        patch.setattr("discodvt.web.lane.PATIENCE", 0)  # those who read wait for no writing
