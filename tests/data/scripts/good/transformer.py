# finds: 1 model, 1 call
import torch
from transformers import BertConfig, BertModel

config = BertConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50
)
model = BertModel(config).eval()
ids = torch.ones(1, 7, dtype=torch.int64)
model(input_ids=ids, attention_mask=torch.ones_like(ids))
