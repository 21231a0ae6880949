"""The text of a story: bytes to characters, cut at a sentence, codes beside what they govern."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers
from unit.writing.toy_writer import TEXTS

from discodvt.corpus.sentences import split_sentences
from discodvt.data.subwords import as_input, train_tokenizer
from discodvt.errors import BadRequest
from discodvt.writing.detokenizer import Detokenizer
from discodvt.writing.story import NO_CODE, Segment, Story, cut_to_sentence, segments_of


def test_subwords_become_the_text_they_came_from_even_inside_a_character():
    tokenizer = train_tokenizer(TEXTS[:1], 270)  # so few that é and the emoji are single bytes
    text = as_input(TEXTS[1])
    ids = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    grown = Detokenizer(tokenizer.backend_tokenizer).growing()
    for id in [tokenizer.bos_token_id, *ids]:
        grown.add(id)
        assert text.startswith(grown.text)
    grown.end()
    assert grown.text == text == tokenizer.decode(ids, skip_special_tokens=True)
    assert grown.starts == sorted(grown.starts)
    half = Detokenizer(tokenizer.backend_tokenizer).growing()
    half.add(tokenizer.backend_tokenizer.encode("é", add_special_tokens=False).ids[-2])  # of space and two bytes
    assert half.text == ""
    half.end()
    assert half.text == "\N{REPLACEMENT CHARACTER}"


def test_added_tokens_are_text_as_they_are():
    """GPT-NeoX and Phi have tokens that are runs of spaces, which are no letters of GPT-2's alphabet."""
    tokenizer = train_tokenizer(TEXTS[:1], 270).backend_tokenizer
    tokenizer.add_tokens(["    ", "<think>", "zażółć"])
    ids = tokenizer.encode("He    <think>zażółć ran", add_special_tokens=False).ids
    grown = Detokenizer(tokenizer).growing()
    for id in ids:
        grown.add(id)
    grown.end()
    assert {tokenizer.token_to_id(added) for added in ("    ", "<think>", "zażółć")} <= set(ids)
    assert grown.text == tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("value", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_is_none_is_an_error_of_its_line(value):
    line = f'{{"id": "1", "prompt": "a", "story": "b", "plan": [1], "seed": {value}, "model": "m", "finish": "end"}}'
    with pytest.raises(BadRequest, match="here: no story of `discodvt generate`"):
        Story.from_line(line, "here")


def sentencepiece(*words: str) -> Tokenizer:
    """A SentencePiece BPE with byte fallback: the words' letters are known, all else becomes bytes."""
    letters = sorted({letter for word in words for letter in word} | {"\N{LOWER ONE EIGHTH BLOCK}"})
    tokens = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\N{LOWER ONE EIGHTH BLOCK}"), normalizers.Replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\N{LOWER ONE EIGHTH BLOCK}", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def test_sentencepiece_with_byte_fallback_has_exact_places():
    tokenizer, text = sentencepiece("He ran."), "He \N{FOX FACE}ran."
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    grown = Detokenizer(tokenizer).growing()
    for id in [tokenizer.token_to_id("<s>"), *ids]:
        grown.add(id)
        assert (" " + text).startswith(grown.text)
    grown.end()
    assert grown.stripped() == (text, [-1, -1, 0, 1, 2, 3, 3, 3, 3, 4, 5, 6, 7])
    assert grown.text.strip() == tokenizer.decode(ids)


def test_other_tokenizers_are_decoded_as_a_stream():
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "fox": 1, "##es": 2, "ran": 3}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    grown = Detokenizer(tokenizer).growing()
    for id in (1, 2, 3):
        grown.add(id)
    grown.end()
    assert (grown.text, grown.starts) == ("foxes ran", [0, 3, 5])


def test_whole_sentences_of_a_growing_text_are_those_of_the_text_so_far():
    text = ' "Stop!" he cried. "Stop! Mr. J. Fox... I see you." '
    text += "She ran. 2. No. 5 came, e.g. late!\n\nThey said yes! *and (it was.) all ended"
    tokenizer = sentencepiece(text)
    grown = Detokenizer(tokenizer).growing()
    assert grown.whole_sentences() == ""
    for id in tokenizer.encode(text.strip(), add_special_tokens=False).ids:
        grown.add(id)
        so_far = grown.text.strip()
        assert grown.whole_sentences() == (so_far and so_far[: split_sentences(so_far)[-1][0]].rstrip())
    assert grown.whole_sentences().endswith("late!")  # "yes!" ends no sentence, as it did before "and" came


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("He ran. She sat. They we", "He ran. She sat."),
        ("He ran. She sat.", "He ran. She sat."),
        ('"Stop!" she cried. "Oh', '"Stop!" she cried.'),
        ("He met Mr. Fox and", "He met Mr. Fox and"),  # no sentence ends
    ],
)
def test_a_story_broken_off_is_cut_at_its_last_sentence_end(text, kept):
    assert cut_to_sentence(text, earliest=0) == kept


def test_a_cut_never_takes_more_than_was_held_back():
    assert cut_to_sentence("He ran. She sat and sat and sat and", earliest=20) == "He ran. She sat and sat and sat and"
    assert cut_to_sentence("Once", earliest=-1) == "Once"  # `max_tokens` 1: it began in the stripped space


def test_segments_tile_the_text_and_say_what_is_past_the_plan():
    starts = [-1, 2, 4, 6, 8, 10, 12]  # subwords of two characters, the first after a space that was stripped
    segments = segments_of((7, 8), starts, 13, tokens_per_code=2)
    assert segments == (Segment(7, 0, 4), Segment(8, 4, 8), Segment(NO_CODE, 8, 13))
    assert segments_of((7, 8, 9, 1), starts, 7, tokens_per_code=2) == (Segment(7, 0, 4), Segment(8, 4, 7))
    assert segments_of((), starts, 13, tokens_per_code=1) == ()
