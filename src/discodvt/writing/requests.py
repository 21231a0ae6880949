"""What a writer is asked for: a prompt with its random stream, and how to draw (by default as in the paper, 4.2)."""

from dataclasses import dataclass

from discodvt.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Request:
    """One story to write. `seed` and `index` name its random stream; a `plan` is followed, without one it is drawn."""

    prompt: str
    index: int = 0
    plan: tuple[int, ...] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How to draw. Lengths, temperature and penalty left None are the model's own (see `discodvt.writing.lengths`)."""

    top_p: float = 0.9  # the nucleus: the fewest subwords that together have this probability
    top_k: int = 0  # 0: off
    min_p: float = 0.0  # share of the likeliest subword's probability; 0: off
    temperature: float | None = None  # 0: greedy
    repetition_penalty: float | None = None  # 1: off
    greedy: bool = False
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_codes: int | None = None
    max_codes: int | None = None
    plan_temperature: float = 1.0  # plans are drawn from the whole distribution; 0: the likeliest code

    def __post_init__(self) -> None:
        _check(0 < self.top_p <= 1, f"top_p {self.top_p:g}", "above 0 and at most 1")
        _check(self.top_k >= 0, f"top_k {self.top_k}", "0 (off) or more")
        _check(0 <= self.min_p < 1, f"min_p {self.min_p:g}", "0 (off) or more, and below 1")
        penalty = self.repetition_penalty
        _check(penalty is None or 0 < penalty < _LARGE, f"repetition_penalty {penalty}", "above 0, up to a million")
        for name in ("temperature", "plan_temperature"):
            value = getattr(self, name)
            _check(
                value is None or 0 <= value < _LARGE, f"{name} {value}", "0 (no chance) or more, and below a million"
            )
        for unit in ("tokens", "codes"):
            low, high = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            _check(low is None or low >= 0, f"min_{unit} {low}", "0 or more")
            _check(high is None or high >= 1, f"max_{unit} {high}", "1 or more")
            if low is not None and high is not None and low > high:
                raise BadRequest(f"min_{unit} {low} is above max_{unit} {high}; make it at most that")

    @property
    def chance(self) -> bool:
        """Whether subwords are drawn, or always the likeliest is taken."""
        return not self.greedy and self.temperature != 0


_LARGE = 1e6


def _check(fine: bool, found: str, expected: str) -> None:
    if not fine:
        raise BadRequest(f"{found}: expected {expected}")
