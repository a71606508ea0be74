import torch
from torch import nn

nn.Linear(4, 3)(torch.ones(2, 5))
