"""transformers' Auto classes know our checkpoints, in whatever order the two packages are imported."""

import subprocess
import sys

import pytest
from unit.writing.toy_writer import save_writer


@pytest.mark.parametrize("before", ["import discodvt", "from transformers import AutoModel; import discodvt"])
def test_auto_classes_open_our_checkpoints(tmp_path, before):
    save_writer(tmp_path)
    code = f"""
{before}
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
config = AutoConfig.from_pretrained({str(tmp_path)!r})
assert type(config).__name__ == "DiscoDVTConfig", config
for kind in (AutoModel, AutoModelForSeq2SeqLM):
    assert type(kind.from_pretrained({str(tmp_path)!r})).__name__ == "DiscoDVT"
    assert type(kind.from_pretrained({str(tmp_path / "prior")!r})).__name__ == "PlanPrior"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_neither_torch_nor_transformers():
    code = "import sys, discodvt; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
