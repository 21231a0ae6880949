"""Any causal language model as a backbone: one sequence `BOS prompt SEP story EOS`.

The latent is added at the positions that predict story tokens, SEP and the story, and nowhere else. A batch is
right-padded in training (prompt and story of a row follow each other without a gap); `generate` may pad on either side.
The posterior is a copy of the first layers of the model, read without the causal mask.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel, AutoModelForCausalLM

from discodvt.data.subwords import Symbols
from discodvt.errors import BadRequest
from discodvt.model.backbones.base import Backbone, Prompt
from discodvt.model.configuration import shortened


class CausalBackbone(Backbone):
    """Whatever `AutoModelForCausalLM` opens and takes `inputs_embeds`."""

    def __init__(self, config: Any, *, separator: int | None = None) -> None:
        super().__init__(config)
        self.separator = separator

    @property
    def symbols(self) -> Symbols:
        """A model without BOS goes without; one without a padding symbol pads with its end, which is masked."""
        bos, eos = self.config.bos_token_id, self.config.eos_token_id
        eos = eos[0] if isinstance(eos, list) else eos
        if eos is None:
            raise BadRequest("the model has no end symbol (eos_token_id); give one that has")
        pad = self.config.pad_token_id
        start = eos if self.separator is None else self.separator
        return Symbols(() if bos is None else (bos,), (), start, eos, eos if pad is None else pad)

    def new_generator(self) -> Any:
        return AutoModelForCausalLM.from_config(self.config)

    def new_posterior(self, layers: int | None) -> Any:
        """Half of the layers by default; every attention sees the whole story."""
        wanted = max(1, self.config.num_hidden_layers // 2) if layers is None else layers
        config = shortened(self.config, min(wanted, self.config.num_hidden_layers))
        config.is_causal = False
        posterior = AutoModel.from_config(config)
        for module in posterior.modules():
            if hasattr(module, "is_causal"):
                module.is_causal = False
        return posterior

    def copy_posterior(self, generator: Any, posterior: Any) -> None:
        weights = generator.base_model.state_dict()
        posterior.load_state_dict({name: weights[name] for name in posterior.state_dict()})

    def read(self, posterior: Any, story_ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = posterior(input_ids=story_ids, attention_mask=mask, use_cache=False).last_hidden_state
        return states

    def decode(self, generator: Any, prompt: Prompt, story_ids: Tensor, latent: Tensor | None, **kwargs: Any) -> Any:
        if prompt.ids is None or prompt.mask is None:
            raise ValueError("a causal model reads prompt and story together: give the prompt's ids and mask")
        prompt_ids = F.pad(prompt.ids, (0, 1))  # a prompt may be empty
        before = prompt.mask.sum(1, keepdim=True)  # [B, 1]
        longest = int(before.max()) + story_ids.shape[1]
        place = torch.arange(longest, device=story_ids.device)[None] - before  # [B, S], < 0 in the prompt
        told = place.clamp(0, story_ids.shape[1] - 1)
        asked = torch.arange(longest, device=story_ids.device).clamp(max=prompt_ids.shape[1] - 1).expand_as(place)
        ids = torch.where(place < 0, prompt_ids.gather(1, asked), story_ids.gather(1, told))
        # what follows a story is padding: no real position sees it, so it needs no mask of its own
        outputs = self.run(generator, ids, place, latent, **kwargs)
        rows = before + torch.arange(story_ids.shape[1], device=story_ids.device)  # [B, T]
        states = outputs.last_hidden_state
        outputs["last_hidden_state"] = states.gather(1, rows.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        return outputs

    def run(self, generator: Any, ids: Tensor, place: Tensor, latent: Tensor | None, **kwargs: Any) -> Any:
        """The model over ids [B, S] whose story positions are `place` [B, S], negative where there is no story."""
        embedded = self.embed_with(generator, ids, place, latent)
        return generator.base_model(inputs_embeds=embedded, **kwargs)

    def begin(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, int, dict[str, Any]]:
        """Padding to the left, then SEP; the latent starts at SEP."""
        order = mask.argsort(dim=1, stable=True)  # padding first, the rest in its order
        separator = input_ids.new_full((len(input_ids), 1), self.symbols.story_start)
        ids = torch.cat([input_ids.gather(1, order), separator], dim=1)
        mask = F.pad(mask.gather(1, order), (0, 1), value=1)
        return ids, mask, ids.shape[1], {"prompt_lengths": mask.sum(1) - 1}

    def logits(self, generator: Any, states: Tensor) -> Tensor:
        return self.capped(generator.get_output_embeddings()(states))

    def capped(self, logits: Tensor) -> Tensor:
        """As Gemma bounds its logits."""
        cap = getattr(self.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap

    @torch.no_grad()
    def check(self, generator: Any) -> None:
        """Refuse a language model that cannot be run from embeddings, or whose logits are made in some other way."""
        kind, symbols, was_training = self.config.model_type, self.symbols, generator.training
        ids = torch.tensor([[symbols.story_start, symbols.story_end, symbols.story_start]], device=generator.device)
        generator.eval()
        try:
            prompt = Prompt(ids[:, :1], torch.ones_like(ids[:, :1]))
            states = self.decode(generator, prompt, ids[:, 1:], None, use_cache=False).last_hidden_state
            ours, theirs = self.logits(generator, states), generator(ids).logits[:, 1:]
        except (TypeError, ValueError, NotImplementedError) as error:
            raise BadRequest(f"a {kind} model cannot be run from input embeddings ({error}); give another") from None
        finally:
            generator.train(was_training)
        if not torch.allclose(ours, theirs, atol=1e-4, rtol=1e-3):
            raise BadRequest(f"a {kind} model makes its logits in a way that is not supported; give another")

    @torch.no_grad()
    def reads_both_ways(self, posterior: Any) -> bool:
        """Whether what comes later in a story changes what is read of its beginning."""
        ids = torch.tensor([[0, 0, 0], [0, 0, 1]], device=posterior.device)
        first, other = self.read(posterior, ids, torch.ones_like(ids))[:, 0]
        return not torch.equal(first, other)

    def summed_loss(self, generator: Any, states: Tensor, labels: Tensor) -> Tensor:
        if getattr(self.config, "final_logit_softcapping", None) is None:
            return super().summed_loss(generator, states, labels)
        real = labels != -100
        return F.cross_entropy(self.logits(generator, states[real]).float(), labels[real], reduction="sum")
