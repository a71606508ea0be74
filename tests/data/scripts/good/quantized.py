# finds: 1 model, 1 call
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
net = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
net(torch.ones(2, 4))
