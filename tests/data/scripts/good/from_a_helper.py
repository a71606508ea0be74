# finds: 1 model, 1 call
import torch
from helpers.layers import Imported

Imported()(torch.ones(2, 4))
