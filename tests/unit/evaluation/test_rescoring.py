"""What is measured of Aristotelian Rescoring: a bag of words knows words and no order, intervals hold the mean."""

import numpy as np
import pytest

from discodvt.errors import BadRequest
from discodvt.evaluation.rescoring import BagOfWords, mean_with_interval, measure


def test_a_bag_of_words_tells_words_apart_and_is_blind_to_their_order():
    by_words = [{"story": f"a good {n}", "changed": f"a bad {n}"} for n in range(20)]
    bag = BagOfWords.trained(by_words)
    assert bag("a good day") > 0 > bag("a bad day")
    by_order = [{"story": f"first then {n}", "changed": f"{n} then first"} for n in range(20)]
    blind = BagOfWords.trained(by_order)
    assert blind("first then x") == pytest.approx(blind("x then first"))
    assert abs(blind("first then 3")) < 1e-3


def test_an_interval_holds_the_mean_and_narrows_with_more_values():
    values = np.random.default_rng(0).normal(0.3, 1.0, size=400)
    few, many = (mean_with_interval(values[:count], seed=1) for count in (40, 400))
    assert few["low"] < few["value"] < few["high"]
    assert many["high"] - many["low"] < 0.5 * (few["high"] - few["low"])
    assert many["low"] > 0


def test_a_directory_without_pairs_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="no pairs in it"):
        measure(tmp_path, tmp_path, tmp_path / "out", judge=tmp_path)
