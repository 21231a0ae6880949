"""The blank pipeline the student starts from: English tokenizer with a few treebank rules, and static vectors.

Reads  vectors in word2vec text format.
Writes a spaCy pipeline directory without components.
"""

import argparse
import re
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.symbols import ORTH
from spacy.training.initialize import convert_vectors
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

RUNS = [r"[!?]{2,}", r"\*{2,}", r"={2,}", r"~{2,}", r"_{2,}", r"\+{2,}", r"<{2,}", r">{2,}", r"\$\$+"]
BOUND = "e|co|non|re|pre|post|anti|mid|over|pro|multi|ex|sub|semi|neo|counter|intra|un|micro|arch"
WHOLE = ["Ft.", "Capt.", "b/c", "w/o"]
SPLIT = "wan na,Wan na,du n no,Du n no,out ta,and / or,24 / 7,a lot,gim me,Gim me,lem me,Lem me".split(",")


def add_rules(nlp: Language) -> None:
    """Keep runs of one punctuation mark and words with a bound prefix whole; split some contractions."""
    defaults, tokenizer = nlp.Defaults, nlp.tokenizer
    tokenizer.prefix_search = compile_prefix_regex([*RUNS, *defaults.prefixes]).search
    tokenizer.suffix_search = compile_suffix_regex([*RUNS, *defaults.suffixes]).search
    tokenizer.infix_finditer = compile_infix_regex([*RUNS, *defaults.infixes]).finditer
    tokenizer.token_match = re.compile(rf"(?i)^(?:{BOUND})-[a-z]+$").match
    for word in WHOLE:
        tokenizer.add_special_case(word, [{ORTH: word}])
    for parts in SPLIT:
        tokenizer.add_special_case(parts.replace(" ", ""), [{ORTH: part} for part in parts.split()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    nlp = spacy.blank("en")
    add_rules(nlp)
    convert_vectors(nlp, args.vectors, truncate=0, prune=-1, name="en_discodvt_ewt.vectors", attr="NORM")
    nlp.to_disk(args.out)


if __name__ == "__main__":
    main()
