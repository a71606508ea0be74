# finds: 1 model, 1 call
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


net, loss = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    loss(net(torch.ones(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
