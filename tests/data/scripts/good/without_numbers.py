# finds: 1 model, 1 call
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

net = nn.Linear(4, 3)
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    net(mode.from_tensor(torch.ones(8, 4)))
net(torch.ones(2, 4))
