"""Modules small enough to be converted in a test, each hard in its own way."""

from __future__ import annotations

import torch


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Masked(torch.nn.Module):
    """Two inputs, a keyword that is no tensor, and a nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.head = torch.nn.Linear(8, 4)

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, double: bool = False
    ) -> dict[str, object]:
        hidden = self.embed(ids) * mask.unsqueeze(-1)
        logits = self.head(hidden) * (2 if double else 1)
        return {"logits": logits, "more": (hidden.sum(1), logits.argmax(-1))}


class Convolution(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
        )
        self.head = torch.nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(image))


class Wide(torch.nn.Module):
    """Wide enough for weights that share a scale in groups of 32, and residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x + torch.relu(self.first(x))
        return self.second(hidden)


class Bounded(Wide):
    """The same on values between -1 and 1, so that calibration sees their largest."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.tanh(x))


class Transformer(torch.nn.Module):
    """A causal language model of one layer whose embedding is its head too."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.mixed = torch.nn.Linear(16, 48)
        self.back = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(ids)
        query, key, value = self.mixed(self.norm(hidden)).unsqueeze(1).chunk(3, -1)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.head(hidden + self.back(mixed.squeeze(1)))


class Nested(torch.nn.Module):
    """Tensors in dicts, tuples of tuples and lists, beside text, a number and None."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        y = self.layer(x)
        past = ((y * 2, y.sum(-1)), (y - 1, None))
        return {"logits": y, "past": past, "kind": "linear", "count": 3, "last": [y.exp()]}
