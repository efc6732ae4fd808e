"""Text models of the published classes, small and with random weights, in folders as hubs have them."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
)

__all__ = ["CODES", "FEATURE_SIZE", "write_flan_t5", "write_tar_llm"]

FEATURE_SIZE = 32
CODES = 4096
"""So many that random weights draw little else."""

_WORDS = ["▁", "▁a", "▁red", "▁circle", "▁on", "▁dark", *"abcdefghijklmnopqrstuvwxyz"]
_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_flan_t5(folder: Path) -> None:
    """An encoder with flan-t5's gated GELU and untied embeddings, and a tokenizer of a few words."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -9.0), *((word, -len(word) / 100) for word in _WORDS)]
    tokenizer = T5Tokenizer(vocab=vocabulary, extra_ids=0)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=FEATURE_SIZE,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    T5EncoderModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_tar_llm(folder: Path, *, codes: int = CODES, chat: str | None = _CHAT) -> None:
    """A Qwen2 whose tokenizer has the tokens that Tar adds, in Tar's order, or without codes as Qwen has it."""
    vocabulary = {character: index for index, character in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>"], special_tokens=True)
    if codes:
        tokenizer.add_tokens(["<im_start>", "<im_end>", "<S0>", "<S1>", "<S2>", *(f"<I{i}>" for i in range(codes))])
    tokenizer.chat_template = chat
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
