"""The model: pure PyTorch on Hugging Face classes. `AutoModel` opens its checkpoints once this is imported."""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from discodvt.model.configuration import DiscoDVTConfig, PlanPriorConfig
from discodvt.model.discodvt import DiscoDVT, Reading
from discodvt.model.prior import PlanPrior

for _config, _model in ((DiscoDVTConfig, DiscoDVT), (PlanPriorConfig, PlanPrior)):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
    AutoModelForSeq2SeqLM.register(_config, _model, exist_ok=True)

__all__ = ["DiscoDVT", "DiscoDVTConfig", "PlanPrior", "PlanPriorConfig", "Reading"]
