# finds: 1 model, 1 call
import torch
from torch import nn

net = nn.Sequential(nn.LazyLinear(8), nn.ReLU())
net(torch.ones(2, 4))
net(torch.ones(2, 4))
