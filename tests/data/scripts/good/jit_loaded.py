# finds: 1 model, 1 call
import io

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu()


file = io.BytesIO()
torch.jit.save(torch.jit.trace(Net(), torch.ones(2, 4)), file)
file.seek(0)
loaded = torch.jit.load(file)
loaded(torch.ones(2, 4))
