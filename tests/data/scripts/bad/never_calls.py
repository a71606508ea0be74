from torch import nn

net = nn.Linear(4, 3)
