"""Text models from a folder or a hub, run by transformers: an encoder, and a language model that continues a chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import transformers
from mulo_engines.errors import CheckpointError, EngineUnavailable
from numpy.typing import NDArray

__all__ = ["ChatModel", "Drawing", "TextEncoder"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a language model draws tokens.

    Attributes:
        temperature: divides the logits.
        top_p: the smallest set of likeliest tokens that holds this probability is drawn from.
        top_k: and of these at most so many.
    """

    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 1200


class TextEncoder:
    """The encoder half of a T5 and its tokenizer.

    Args:
        source: a folder, or the name of a repository on the hub.
        dtype: "bfloat16", or "float32"; float16 overflows in T5.
        device: where it runs, as torch calls it.

    Raises:
        CheckpointError: there is no such model, or a part of it is missing.
        EngineUnavailable: there is no such device.
    """

    def __init__(self, source: str, *, dtype: str = "bfloat16", device: str = "cpu") -> None:
        self._tokenizer = _loaded(source, transformers.AutoTokenizer.from_pretrained)
        self._model = _model(source, transformers.T5EncoderModel, dtype, device)

    def encode(self, texts: Sequence[str], length: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Last hidden states [N, length, E] of `texts`, padded on the right, and where they are of the text.

        Longer texts are cut.
        """
        tokens = self._tokenizer(
            list(texts), max_length=length, padding="max_length", truncation=True, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            states = self._model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
        return states.float().cpu().numpy(), tokens.attention_mask.bool().cpu().numpy()


class ChatModel:
    """A Qwen2 language model and its tokenizer, which brings the template of its chats.

    Weights beyond the language model, such as the vision tower in Tar's files, are left out.

    Args:
        source: a folder, or the name of a repository on the hub.
        dtype: "bfloat16" or "float32".
        device: where it runs, as torch calls it.

    Raises:
        CheckpointError: there is no such model, or a part of it is missing.
        EngineUnavailable: there is no such device.
    """

    def __init__(self, source: str, *, dtype: str = "bfloat16", device: str = "cpu") -> None:
        self._tokenizer = _loaded(source, transformers.AutoTokenizer.from_pretrained)
        self._model = _model(source, transformers.Qwen2ForCausalLM, dtype, device)
        if self._tokenizer.chat_template is None:
            raise CheckpointError(
                f"{source}: the tokenizer brings no chat template", fix="give the folder of an instruction-tuned model"
            )

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of every token, those added to the tokenizer included."""
        return dict(self._tokenizer.get_vocab())

    def chat(self, system: str, user: str) -> str:
        """The text of a chat up to where the model answers `user`."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def continue_text(
        self, text: str, count: int, drawing: Drawing, seed: int, allowed: Sequence[int] | None = None
    ) -> list[int]:
        """Draw up to `count` tokens that follow `text`, fewer where the model ends its answer.

        Args:
            text: special tokens in it count as such.
            count: how many.
            drawing: how they are drawn.
            seed: equal seeds draw equal tokens on the same machine.
            allowed: the only ids that may be drawn; None allows every one.
        """
        tokens = self._tokenizer(text, return_tensors="pt").to(self._model.device)
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(seed)
            output = self._model.generate(
                **tokens,
                do_sample=True,
                max_new_tokens=count,
                temperature=drawing.temperature,
                top_p=drawing.top_p,
                top_k=drawing.top_k,
                pad_token_id=self._tokenizer.pad_token_id,
                logits_processor=[] if allowed is None else [_only(allowed, self._model)],
            )
        drawn: list[int] = output[0, tokens.input_ids.shape[1] :].tolist()
        return drawn


def _only(allowed: Sequence[int], model: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What leaves the scores of the tokens `allowed` as they are, and makes all others impossible."""
    bias = torch.full((model.config.vocab_size,), -torch.inf, device=model.device)
    bias[torch.tensor(allowed, device=model.device)] = 0
    return lambda _, scores: scores + bias


def _model(source: str, kind: Any, dtype: str, device: str) -> Any:
    """The model in `source`, of the right type and with all its weights; transformers would draw those it lacks."""
    found, _ = _loaded(source, transformers.PretrainedConfig.get_config_dict)
    if (wanted := kind.config_class.model_type) not in str(found.get("model_type")):
        raise CheckpointError(
            f"{source}: another model than the one that is wanted",
            found=found.get("model_type"),
            expected=wanted,
            fix="give the folder of the right model",
        )
    settings = {"dtype": getattr(torch, dtype), "output_loading_info": True}
    model, report = _loaded(source, lambda place: kind.from_pretrained(place, **settings))
    if report["missing_keys"]:
        raise CheckpointError(
            f"{source}: not the weights of a {type(model).__name__}",
            found=f"{len(report['missing_keys'])} tensors are missing, such as {min(report['missing_keys'])}",
            fix="download the model again, whole",
        )
    try:
        return model.eval().to(device)
    except (AssertionError, RuntimeError) as error:
        raise EngineUnavailable(
            f"the text model cannot run on {device!r}", found=error, expected="such as 'cpu' or 'cuda'"
        ) from error


def _loaded(source: str, load: Callable[[str], _T]) -> _T:
    """What `load` makes of `source`; code that a repository brings is never run.

    Raises:
        CheckpointError: it cannot be loaded.
    """
    try:
        return load(source)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{source}: no text model can be loaded from here",
            found=str(error).strip().splitlines()[0],
            expected="a folder with a model and its tokenizer, or the name of a repository on the hub",
            fix="download the repository, and give its folder",
        ) from error
