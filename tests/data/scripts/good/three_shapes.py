# finds: 1 model, 3 calls
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


net = Net()
for rows in (1, 2, 8, 1, 2):
    net(torch.ones(rows, 4))
