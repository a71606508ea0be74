import torch
from torch import nn

nn.ReLU()(torch.ones(2))
