"""German texts with correct UD v2 trees and STTS tags written by hand; tokens as in `paper_examples`."""

from golden.paper_examples import Example

EXAMPLES = (
    Example(
        "although",
        "although_arg2_arg1",
        "spielten die Kinder draußen",
        "es regnete",
        "Obwohl es regnete, spielten die Kinder draußen.",
        (
            "Obwohl/KOUS/3/mark es/PPER/3/expl regnete/VVFIN/5/advcl ,/$,/3/punct spielten/VVFIN/0/root"
            " die/ART/7/det Kinder/NN/5/nsubj draußen/ADV/5/advmod ./$./5/punct",
        ),
    ),
    Example(
        "because",
        "because_arg1_arg2",
        "Der Fuchs lief nach Hause",
        "er müde war",
        "Der Fuchs lief nach Hause, weil er müde war.",
        (
            "Der/ART/2/det Fuchs/NN/3/nsubj lief/VVFIN/0/root nach/APPR/5/case Hause/NN/3/obl ,/$,/9/punct"
            " weil/KOUS/9/mark er/PPER/9/nsubj müde/ADJD/3/advcl war/VAFIN/9/cop ./$./3/punct",
        ),
    ),
    Example(  # a reason that coordinates: the verb stands second
        "because",
        "because_arg1_arg2",
        "Mia blieb im Bett",
        "sie hatte Fieber",
        "Mia blieb im Bett, denn sie hatte Fieber.",
        (
            "Mia/NE/2/nsubj blieb/VVFIN/0/root im/APPRART/4/case Bett/NN/2/obl ,/$,/8/punct denn/KON/8/cc"
            " sie/PPER/8/nsubj hatte/VAFIN/2/conj Fieber/NN/8/obj ./$./2/punct",
        ),
    ),
    Example(
        "so",
        "so_arg1_arg2",
        "Das Brot war alt",
        "backte die Müllerin ein neues",
        "Das Brot war alt. Deshalb backte die Müllerin ein neues.",
        (
            "Das/ART/2/det Brot/NN/4/nsubj war/VAFIN/4/cop alt/ADJD/0/root ./$./4/punct",
            "Deshalb/PAV/2/advmod backte/VVFIN/0/root die/ART/4/det Müllerin/NN/2/nsubj ein/ART/6/det neues/ADJA/2/obj"
            " ./$./2/punct",
        ),
    ),
    Example(
        "before",
        "before_arg2_arg1",
        "war der Bär verschwunden",
        "er sprechen konnte",
        "Bevor er sprechen konnte, war der Bär verschwunden.",
        (
            "Bevor/KOUS/3/mark er/PPER/3/nsubj sprechen/VVINF/9/advcl konnte/VMFIN/3/aux ,/$,/3/punct war/VAFIN/9/aux"
            " der/ART/8/det Bär/NN/9/nsubj verschwunden/VVPP/0/root ./$./9/punct",
        ),
    ),
    Example(
        "after",
        "after_arg1_arg2",
        "Der Hund bellte",
        "sie gegangen war",
        "Der Hund bellte, nachdem sie gegangen war.",
        (
            "Der/ART/2/det Hund/NN/3/nsubj bellte/VVFIN/0/root ,/$,/7/punct nachdem/KOUS/7/mark sie/PPER/7/nsubj"
            " gegangen/VVPP/3/advcl war/VAFIN/7/aux ./$./3/punct",
        ),
    ),
    Example(
        "as",
        "as_arg2_arg1",
        "schlief das Kind",
        "der Vater nach Hause kam",
        "Als der Vater nach Hause kam, schlief das Kind.",
        (
            "Als/KOUS/6/mark der/ART/3/det Vater/NN/6/nsubj nach/APPR/5/case Hause/NN/6/obl kam/VVFIN/8/advcl"
            " ,/$,/6/punct schlief/VVFIN/0/root das/ART/10/det Kind/NN/8/nsubj ./$./8/punct",
        ),
    ),
    Example(
        "then",
        "then_arg1_arg2",
        "Die Eule lachte",
        "flog sie fort",
        "Die Eule lachte. Dann flog sie fort.",
        (
            "Die/ART/2/det Eule/NN/3/nsubj lachte/VVFIN/0/root ./$./3/punct",
            "Dann/ADV/2/advmod flog/VVFIN/0/root sie/PPER/2/nsubj fort/PTKVZ/2/compound:prt ./$./2/punct",
        ),
    ),
    Example(
        "and",
        "and_arg1_arg2",
        "Tom fand einen Ball",
        "Mia nahm ihn mit",
        "Tom fand einen Ball und Mia nahm ihn mit.",
        (
            "Tom/NE/2/nsubj fand/VVFIN/0/root einen/ART/4/det Ball/NN/2/obj und/KON/7/cc Mia/NE/7/nsubj"
            " nahm/VVFIN/2/conj ihn/PPER/7/obj mit/PTKVZ/7/compound:prt ./$./2/punct",
        ),
    ),
    Example(
        "also",
        "also_arg1_arg2",
        "Der Wolf war hungrig",
        "Er war auch sehr müde",
        "Der Wolf war hungrig. Er war auch sehr müde.",
        (
            "Der/ART/2/det Wolf/NN/4/nsubj war/VAFIN/4/cop hungrig/ADJD/0/root ./$./4/punct",
            "Er/PPER/5/nsubj war/VAFIN/5/cop auch/ADV/5/advmod sehr/ADV/5/advmod müde/ADJD/0/root ./$./5/punct",
        ),
    ),
    Example(
        "still",
        "still_arg1_arg2",
        "Es schneite die ganze Nacht",
        "ging er in den Wald",
        "Es schneite die ganze Nacht. Trotzdem ging er in den Wald.",
        (
            "Es/PPER/2/expl schneite/VVFIN/0/root die/ART/5/det ganze/ADJA/5/amod Nacht/NN/2/obl ./$./2/punct",
            "Trotzdem/PAV/2/advmod ging/VVFIN/0/root er/PPER/2/nsubj in/APPR/6/case den/ART/6/det Wald/NN/2/obl"
            " ./$./2/punct",
        ),
    ),
)

NO_RELATION = (  # words of the list that connect nothing here
    (
        "Es sah aus, als ob es schneite.",
        (
            "Es/PPER/2/nsubj sah/VVFIN/0/root aus/PTKVZ/2/compound:prt ,/$,/8/punct als/KOUS/8/mark ob/KOUS/8/mark"
            " es/PPER/8/expl schneite/VVFIN/2/advcl ./$./2/punct",
        ),
    ),
    (
        "Tom und Mia aßen Brot und Butter.",
        (
            "Tom/NE/4/nsubj und/KON/3/cc Mia/NE/1/conj aßen/VVFIN/0/root Brot/NN/4/obj und/KON/7/cc Butter/NN/5/conj"
            " ./$./4/punct",
        ),
    ),
    (
        "Da kam der Wolf.",  # `da` as an adverb: there
        ("Da/ADV/2/advmod kam/VVFIN/0/root der/ART/4/det Wolf/NN/2/nsubj ./$./2/punct",),
    ),
    (
        "Wenn du brav bist, dann bekommst du Kuchen.",
        (
            "Wenn/KOUS/3/mark du/PPER/3/nsubj brav/ADJD/7/advcl bist/VAFIN/3/cop ,/$,/3/punct dann/ADV/7/advmod"
            " bekommst/VVFIN/0/root du/PPER/7/nsubj Kuchen/NN/7/obj ./$./7/punct",
        ),
    ),
    (
        "Er sang nicht nur, sondern tanzte auch.",
        (
            "Er/PPER/2/nsubj sang/VVFIN/0/root nicht/PTKNEG/4/advmod nur/ADV/2/advmod ,/$,/7/punct sondern/KON/7/cc"
            " tanzte/VVFIN/2/conj auch/ADV/7/advmod ./$./2/punct",
        ),
    ),
    (
        "Auch er kam.",  # of a noun, not of a clause
        ("Auch/ADV/2/advmod er/PPER/3/nsubj kam/VVFIN/0/root ./$./3/punct",),
    ),
)
