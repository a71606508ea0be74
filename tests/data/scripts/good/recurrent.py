# finds: 1 model, 2 calls
import torch
from torch import nn

net = nn.LSTM(4, 8, batch_first=True)
state = None
for _ in range(3):
    _, state = net(torch.ones(1, 5, 4), state)
