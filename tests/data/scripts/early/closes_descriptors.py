import os

import torch

net = torch.nn.Linear(3, 3)
net(torch.ones(1, 3))
os.closerange(0, 4096)
other = torch.nn.Linear(4, 3)
other(torch.ones(1, 4))
