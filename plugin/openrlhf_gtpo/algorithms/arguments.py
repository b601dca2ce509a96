"""Checks of the arguments of tensor functions. Each raises a ValueError of one sentence that names the argument."""

import math
import warnings
from typing import Literal

import torch

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    kind: Literal["bool", "float", "integer", "any"],
    *shape: int | str,
    entropy: torch.Tensor | None = None,
) -> None:
    """Check type, shape (a letter stands for any number) and, if ``entropy`` is given, that both are on one device."""
    is_kind = {
        "bool": tensor.dtype == torch.bool,
        "float": tensor.is_floating_point(),
        "integer": tensor.dtype in _INTEGERS,
        "any": True,
    }[kind]
    fits = tensor.dim() == len(shape) and all(
        isinstance(wanted, str) or wanted == size for wanted, size in zip(shape, tensor.shape, strict=True)
    )
    if not (is_kind and fits):
        article = {"integer": "an integer", "any": "a"}.get(kind, f"a {kind}")
        wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(
            f"{name} must be {article} tensor of shape {wanted}, got {tensor.dtype} of shape {tuple(tensor.shape)}"
        )
    if entropy is not None and tensor.device != entropy.device:
        raise ValueError(f"{name} must be on entropy's device {entropy.device}, but it is on {tensor.device}")


def entropies_on_tokens(
    entropy: torch.Tensor, mask: torch.Tensor, clip: tuple[float, float] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The entropies (N, T) as float32 or float64, clipped, without gradient and 0 off the mask; the mask as bool.

    Raises:
        ValueError: shapes, types or devices are wrong, the mask holds anything but 0 and 1, a token's entropy is
            negative, infinite or no number, or the clip is no range of entropies.
    """
    check_tensor("entropy", entropy, "float", "N", "T")
    if mask.shape != entropy.shape:
        raise ValueError(f"mask must have entropy's shape {tuple(entropy.shape)}, got {tuple(mask.shape)}")
    check_tensor("mask", mask, "any", *entropy.shape, entropy=entropy)
    on = mask.bool()
    if mask.dtype != torch.bool and not (on == mask).all():
        raise ValueError("mask must hold nothing but 0 and 1, but it holds other values")
    nats = torch.where(on, entropy.detach(), 0.0).to(torch.promote_types(entropy.dtype, torch.float32))
    least, most = nats.aminmax() if nats.numel() else (0, 0)  # NaN if any is
    if not (least >= 0 and most < math.inf):
        row, column = (~((nats >= 0) & nats.isfinite())).nonzero()[0].tolist()
        raise ValueError(
            "entropy must be finite and at least 0 on every response token, but it is "
            f"{nats[row, column].item()} in response {row}, column {column}"
        )
    if clip is None:
        return nats, on
    if not 0 <= clip[0] <= clip[1] or clip[0] == math.inf:
        raise ValueError(f"entropy_clip must be (low, high) with 0 <= low <= high in nats, got {clip}")
    return nats.clamp(*clip) * on, on


def check_responses(
    entropy: torch.Tensor, correct: torch.Tensor, group: torch.Tensor, penalty: torch.Tensor | None
) -> None:
    """Check what there is one of for each response, beside entropies (N, any)."""
    check_tensor("correct", correct, "bool", len(entropy), entropy=entropy)
    check_tensor("group", group, "integer", len(entropy), entropy=entropy)
    if penalty is not None:
        check_tensor("penalty", penalty, "float", len(entropy), entropy=entropy)
        if not penalty.isfinite().all():
            raise ValueError("penalty must be finite, but it holds inf or NaN")


def check_options(alpha1: float, alpha2: float, eps: float, over: str, scope: str) -> None:
    """Check the options of `openrlhf_gtpo.shaping`; a warning names the line three calls up, which is its caller's."""
    for name, value in (("alpha1", alpha1), ("alpha2", alpha2), ("eps", eps)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value}")
    if over not in ("group", "class"):
        raise ValueError(f'over must be "group" or "class", got {over!r}')
    if scope not in ("group", "batch"):
        raise ValueError(f'scope must be "group" or "batch", got {scope!r}')
    if over == "class":
        warnings.warn(
            'over="class" normalises correct and wrong responses separately, so advantages no longer distinguish them '
            "(on a small policy pass@1 fell from 0.33 to below 0.1 with each of 3 seeds): use it for comparison only",
            stacklevel=4,
        )
