# finds: 1 model, 1 call
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


class Louder(Net):
    def __call__(self, *args):
        print("called")
        return super().__call__(*args)


Louder()(torch.ones(2, 4))
