# finds: 1 model, 1 call
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


net = Net()
net.register_forward_hook(lambda module, inputs, answer: answer + 1)
net(torch.ones(2, 4))
