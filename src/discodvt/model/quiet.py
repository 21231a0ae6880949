"""The terminal is this program's: libraries below it do not draw bars or count retries there."""

from huggingface_hub.utils import logging as hub
from transformers.utils import logging as transformers


def quiet_libraries() -> None:
    """No bar for every checkpoint that is opened, no lines about a Hub that does not answer."""
    transformers.disable_progress_bar()
    hub.set_verbosity_error()
