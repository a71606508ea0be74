import os

import torch
from torch import nn

net = nn.Linear(4, 3)
with torch.no_grad():
    net.weight.fill_(int.from_bytes(os.urandom(2), "big"))
net(torch.ones(2, 4))
