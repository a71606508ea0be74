# finds: 2 models, 2 calls
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


class Pipeline:
    def __init__(self):
        self.encoder = Net()
        self.decoder = nn.Linear(3, 4)

    def __call__(self, x):
        return self.decoder(self.encoder(x))


Pipeline()(torch.ones(2, 4))
