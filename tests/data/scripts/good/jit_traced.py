# finds: 1 model, 1 call
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


net = torch.jit.trace(Net(), torch.ones(2, 4))
net(torch.ones(2, 4))
