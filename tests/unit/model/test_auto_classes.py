"""transformers' Auto classes know our checkpoints, in whatever order the two packages are imported."""

import subprocess
import sys

from unit.writing.toy_writer import save_writer

IN_EACH_ORDER = """
import os, sys
import accelerate, scipy.optimize, tokenizers, torch._dynamo, torch.distributed.tensor  # most of transformers' imports
directory = sys.argv[1]
assert not {"transformers", "discodvt"} & set(sys.modules)
for before in ("import discodvt", "from transformers import AutoModel; import discodvt"):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, before
        continue
    exec(before)
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
    config = AutoConfig.from_pretrained(directory)
    assert type(config).__name__ == "DiscoDVTConfig", config
    for kind in (AutoModel, AutoModelForSeq2SeqLM):
        assert type(kind.from_pretrained(directory)).__name__ == "DiscoDVT"
        assert type(kind.from_pretrained(directory + "/prior")).__name__ == "PlanPrior"
    os._exit(0)
"""


def test_auto_classes_open_our_checkpoints(tmp_path):
    save_writer(tmp_path)
    subprocess.run([sys.executable, "-c", IN_EACH_ORDER, str(tmp_path)], check=True)


def test_importing_the_package_imports_neither_torch_nor_transformers():
    code = "import sys, discodvt; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
