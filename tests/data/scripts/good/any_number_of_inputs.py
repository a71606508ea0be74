# finds: 1 model, 2 calls
import torch
from torch import nn


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, *inputs):
        return self.layer(sum(inputs))


net = Sum()
net(torch.ones(2, 4), torch.ones(2, 4))
net(torch.ones(2, 4), torch.ones(2, 4), torch.ones(2, 4))
