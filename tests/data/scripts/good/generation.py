# finds: 1 model, 3 calls
import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=49)
model = GPT2LMHeadModel(config).eval()
ids = torch.ones(1, 5, dtype=torch.int64)
model(ids)
model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=49)
