"""TA-Tok codes of Tar (Han et al., arXiv 2506.18898), which its language model draws as the answer to a prompt."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from mulo_engines.errors import CheckpointError, RequestError
from mulo_runtime import TaTokCodes

from mulo_tools.text.hub_models import ChatModel, Drawing

__all__ = ["SCALES", "code_ids", "draw_codes", "image_prompt", "parse_codes"]

_LOG = logging.getLogger(__name__)

SCALES = {729: 0, 169: 1, 81: 2}
"""The scale of an image's codes by their number."""

_SYSTEM = "You are a helpful assistant."
_IMAGE_START = "<im_start>"


def draw_codes(
    model: ChatModel,
    prompt: str,
    count: int = 729,
    *,
    seed: int = 0,
    drawing: Drawing | None = None,
    only_codes: bool = False,
) -> TaTokCodes:
    """Have the language model draw the codes of an image of `prompt`.

    As published, the model may draw other tokens, which are left out, and may end early, after which code 0 stands
    for what is missing; a warning tells how many that are.

    Args:
        model: Tar's.
        prompt: as users write it.
        count: one of `SCALES`.
        seed: of the draws.
        drawing: how tokens are drawn; None draws as published.
        only_codes: let the model draw nothing but codes, which is not how images are published.

    Raises:
        CheckpointError: the tokenizer has no tokens for images.
        RequestError: no code was drawn.
    """
    ids = code_ids(model.vocabulary)
    text = image_prompt(model, prompt, count)
    drawn = model.continue_text(text, count, drawing or Drawing(), seed, ids if only_codes else None)
    return parse_codes(drawn, ids, count)


def image_prompt(model: ChatModel, prompt: str, count: int) -> str:
    """The chat in which the model is asked for `prompt` and begins to answer with an image of `count` codes.

    Raises:
        CheckpointError: the tokenizer does not have the tokens that begin an image.
    """
    beginning = [_IMAGE_START, f"<S{SCALES[count]}>"]
    if missing := [token for token in beginning if token not in model.vocabulary]:
        raise _no_tokens(missing[0], "tokens that begin an image")
    return model.chat(_SYSTEM, prompt) + "".join(beginning)


def code_ids(vocabulary: Mapping[str, int]) -> list[int]:
    """The token of every code, in order: "<I0>", "<I1>" and so on, as far as the vocabulary has them.

    Raises:
        CheckpointError: there is none.
    """
    ids: list[int] = []
    while (token := vocabulary.get(f"<I{len(ids)}>")) is not None:
        ids.append(token)
    if not ids:
        raise _no_tokens("<I0>", "a token for every code of an image")
    return ids


def parse_codes(drawn: Sequence[int], ids: Sequence[int], count: int) -> TaTokCodes:
    """The first `count` codes among the tokens `drawn`, filled up with code 0.

    Raises:
        RequestError: there is none.
    """
    code_of = {token: code for code, token in enumerate(ids)}
    codes = [code_of[token] for token in drawn if token in code_of][:count]
    if not codes:
        raise RequestError(
            "the language model drew no code of an image",
            found=f"{len(drawn)} other tokens",
            expected=f"{count} codes",
            fix="give another prompt or seed, or --only-codes",
        )
    if missing := count - len(codes):
        _LOG.warning("the language model drew %d codes of %d; code 0 stands for the rest", count - missing, count)
    return TaTokCodes(np.array(codes + [0] * missing, np.int64))


def _no_tokens(found: str, expected: str) -> CheckpointError:
    return CheckpointError(
        "the tokenizer is not that of Tar's language model",
        found=f"no token {found}",
        expected=expected,
        fix="give the folder of Tar's language model, added_tokens.json or tokenizer.json included",
    )
