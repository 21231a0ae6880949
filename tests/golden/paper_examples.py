"""The ten example sentences of the paper's figure of dependency patterns, with correct UD v2 trees written by hand.

A token is word/tag/head/label, heads counted from 1, 0 at the root. The last example but one has two sentences.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    marker: str
    relation: str
    arg1: str
    arg2: str
    text: str
    sentences: tuple[str, ...]


EXAMPLES = (
    Example(
        "although",
        "although_arg2_arg1",
        "Paul's prescient visions indicate that this is far from the worst possible outcome for humanity",
        "61 billion people have perished",
        "Although 61 billion people have perished, Paul's prescient visions indicate that this is far from the worst"
        " possible outcome for humanity.",
        (
            "Although/IN/6/mark 61/CD/3/compound billion/CD/4/nummod people/NNS/6/nsubj have/VBP/6/aux"
            " perished/VBN/12/advcl ,/,/6/punct Paul/NNP/11/nmod:poss 's/POS/8/case prescient/JJ/11/amod"
            " visions/NNS/12/nsubj indicate/VBP/0/root that/IN/16/mark this/DT/16/nsubj is/VBZ/16/cop far/RB/12/ccomp"
            " from/IN/21/case the/DT/21/det worst/JJS/21/amod possible/JJ/21/amod outcome/NN/16/obl for/IN/23/case"
            " humanity/NN/21/nmod ././12/punct",
        ),
    ),
    Example(
        "so",
        "so_arg1_arg2",
        "Father Matthew decides to send him to Rome",
        "he can attend an exorcism class taught by his friend",
        "Father Matthew decides to send him to Rome, so he can attend an exorcism class taught by his friend.",
        (
            "Father/NNP/3/nsubj Matthew/NNP/1/flat decides/VBZ/0/root to/TO/5/mark send/VB/3/xcomp him/PRP/5/obj"
            " to/IN/8/case Rome/NNP/5/obl ,/,/13/punct so/IN/13/mark he/PRP/13/nsubj can/MD/13/aux attend/VB/3/advcl"
            " an/DT/16/det exorcism/NN/16/compound class/NN/13/obj taught/VBN/16/acl by/IN/20/case"
            " his/PRP$/20/nmod:poss friend/NN/17/obl ././3/punct",
        ),
    ),
    Example(
        "because",
        "because_arg2_arg1",
        "she decides to contact Gerard herself",
        "the detectives do not believe her",
        "Because the detectives do not believe her, she decides to contact Gerard herself.",
        (
            "Because/IN/6/mark the/DT/3/det detectives/NNS/6/nsubj do/VBP/6/aux not/RB/6/advmod believe/VB/10/advcl"
            " her/PRP/6/obj ,/,/6/punct she/PRP/10/nsubj decides/VBZ/0/root to/TO/12/mark contact/VB/10/xcomp"
            " Gerard/NNP/12/obj herself/PRP/12/obl:npmod ././10/punct",
        ),
    ),
    Example(
        "before",
        "before_arg1_arg2",
        "He damages the stabilizer",
        "his teammates can tie him up in the shuttle",
        "He damages the stabilizer before his teammates can tie him up in the shuttle.",
        (
            "He/PRP/2/nsubj damages/VBZ/0/root the/DT/4/det stabilizer/NN/2/obj before/IN/9/mark his/PRP$/7/nmod:poss"
            " teammates/NNS/9/nsubj can/MD/9/aux tie/VB/2/advcl him/PRP/9/obj up/RP/9/compound:prt in/IN/14/case"
            " the/DT/14/det shuttle/NN/9/obl ././2/punct",
        ),
    ),
    Example(
        "after",
        "after_arg2_arg1",
        "he follows the captain's order to fix the drive",
        "Cho calms him down",
        "After Cho calms him down, he follows the captain's order to fix the drive.",
        (
            "After/IN/3/mark Cho/NNP/3/nsubj calms/VBZ/8/advcl him/PRP/3/obj down/RP/3/compound:prt ,/,/3/punct"
            " he/PRP/8/nsubj follows/VBZ/0/root the/DT/10/det captain/NN/12/nmod:poss 's/POS/10/case order/NN/8/obj"
            " to/TO/14/mark fix/VB/12/acl the/DT/16/det drive/NN/14/obj ././8/punct",
        ),
    ),
    Example(
        "as",
        "as_arg2_arg1",
        "Luthor wishes the experience to continue",
        "his powers drain",
        "As his powers drain, Luthor wishes the experience to continue.",
        (
            "As/IN/4/mark his/PRP$/3/nmod:poss powers/NNS/4/nsubj drain/VBP/7/advcl ,/,/4/punct Luthor/NNP/7/nsubj"
            " wishes/VBZ/0/root the/DT/9/det experience/NN/7/obj to/TO/11/mark continue/VB/7/xcomp ././7/punct",
        ),
    ),
    Example(
        "then",
        "then_arg1_arg2",
        "Mason destroys the chips",
        "surrenders to Hummel",
        "Mason destroys the chips, then surrenders to Hummel.",
        (
            "Mason/NNP/2/nsubj destroys/VBZ/0/root the/DT/4/det chips/NNS/2/obj ,/,/7/punct then/RB/7/advmod"
            " surrenders/VBZ/2/parataxis to/IN/9/case Hummel/NNP/7/obl ././2/punct",
        ),
    ),
    Example(
        "and",
        "and_arg1_arg2",
        "Nick blames Jerry for forcing him into the profession",
        "asks him to get away",
        "Nick blames Jerry for forcing him into the profession and asks him to get away.",
        (
            "Nick/NNP/2/nsubj blames/VBZ/0/root Jerry/NNP/2/obj for/IN/5/mark forcing/VBG/2/advcl him/PRP/5/obj"
            " into/IN/9/case the/DT/9/det profession/NN/5/obl and/CC/11/cc asks/VBZ/2/conj him/PRP/11/obj to/TO/14/mark"
            " get/VB/11/xcomp away/RB/14/advmod ././2/punct",
        ),
    ),
    Example(
        "also",
        "also_arg1_arg2",
        "Kenny, revealed to be alive and an undercover FBI agent",
        "He also implies that Lampone is another undercover agent",
        "Kenny, revealed to be alive and an undercover FBI agent. He also implies that Lampone is another undercover"
        " agent.",
        (
            "Kenny/NNP/0/root ,/,/3/punct revealed/VBN/1/acl to/TO/6/mark be/VB/6/cop alive/JJ/3/xcomp and/CC/11/cc"
            " an/DT/11/det undercover/JJ/11/amod FBI/NNP/11/compound agent/NN/6/conj ././1/punct",
            "He/PRP/3/nsubj also/RB/3/advmod implies/VBZ/0/root that/IN/9/mark Lampone/NNP/9/nsubj is/VBZ/9/cop"
            " another/DT/9/det undercover/JJ/9/amod agent/NN/3/ccomp ././3/punct",
        ),
    ),
    Example(
        "still",
        "still_arg1_arg2",
        "She strikes out across the dense sawgrass marshes",
        "miles from home",
        "She strikes out across the dense sawgrass marshes still miles from home.",
        (
            "She/PRP/2/nsubj strikes/VBZ/0/root out/RP/2/compound:prt across/IN/8/case the/DT/8/det dense/JJ/8/amod"
            " sawgrass/NN/8/compound marshes/NNS/2/obl still/RB/10/advmod miles/NNS/2/advcl from/IN/12/case"
            " home/NN/10/nmod ././2/punct",
        ),
    ),
)
