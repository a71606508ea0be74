# finds: 1 model, 1 call
from concurrent.futures import ThreadPoolExecutor

import torch

layer = torch.nn.Linear(4, 2)
pool = ThreadPoolExecutor(1)  # nobody shuts it down
print(pool.submit(layer, torch.ones(1, 4)).result().shape)
