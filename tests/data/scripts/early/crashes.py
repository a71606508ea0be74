import ctypes

import torch

net = torch.nn.Linear(3, 3)
net(torch.ones(1, 3))
ctypes.string_at(0)
