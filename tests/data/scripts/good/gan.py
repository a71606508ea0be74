# finds: 2 models, 3 calls
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


maker = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
judge = Net()
judge(maker(torch.ones(3, 2)))
judge(torch.ones(6, 4))
