# finds: 1 model, 1 call
import torch

net = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))
net.weight.sum()
net(torch.ones(2, 4))
