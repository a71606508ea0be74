# finds: 1 model, 2 calls
import torch
from torch import nn


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, mask=None, scale=1.0, *, flip=False):
        y = self.layer(x) * scale
        y = y if mask is None else y * mask
        return -y if flip else y


net = Two()
x, mask = torch.ones(2, 4), torch.ones(2, 1)
net(x)
net(x, mask)
