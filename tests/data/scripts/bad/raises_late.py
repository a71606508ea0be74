import torch
from torch import nn

net = nn.Linear(4, 3)
net(torch.ones(2, 4))
raise ValueError("no more data")
