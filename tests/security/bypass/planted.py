"""What lies in a stranger's folder: code, pickles and models, each of which makes the marker."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

CODE = """
import os
import torch
open({marker!r}, "w").close()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
def make(*args, **kwargs):
    return Net()
def test_it():
    pass
if __name__ == "__main__":
    make()(torch.ones(3, 4))
"""
MODELING = """
open({marker!r}, "w").close()
from transformers import BertConfig, BertModel
class EvilConfig(BertConfig):
    model_type = "evil"
class EvilModel(BertModel):
    config_class = EvilConfig
"""
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    **{"vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1},
    **{"intermediate_size": 8, "max_position_embeddings": 16},
}
AUTO = {
    "AutoConfig": "modeling_evil.EvilConfig",
    "AutoModel": "modeling_evil.EvilModel",
    "AutoModelForCausalLM": "modeling_evil.EvilModel",
}


class Evil:
    """Makes the marker, a directory, when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def torch_pickle(value: object, **options: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def plant(folder: Path, marker: Path) -> None:
    """Fill the folder; nothing of it runs here."""
    import numpy as np

    code = CODE.format(marker=str(marker))
    (folder / "elsewhere").mkdir(parents=True)
    (folder / "package").mkdir()
    (folder / "site").mkdir()
    for name in ("planted.py", "hubconf.py", "package/__init__.py", "package/inner.py"):
        (folder / name).write_text(code)
    (folder / "elsewhere" / "real.py").write_text(code)
    (folder / "linked.py").symlink_to(folder / "elsewhere" / "real.py")
    (folder / "site" / "evil.pth").write_text(f"import os; open({str(marker)!r}, 'w').close()\n")
    evil = torch_pickle(Evil(marker))
    (folder / "planted.pt").write_bytes(evil)
    (folder / "planted.pkl").write_bytes(pickle.dumps(Evil(marker)))
    with (folder / "planted.npy").open("wb") as file:
        np.save(file, np.array([Evil(marker)], dtype=object), allow_pickle=True)
    (folder / "lightning.ckpt").write_bytes(
        torch_pickle({"state_dict": {}, "evil": Evil(marker), "pytorch-lightning_version": "2.0.0"})
    )
    hub(folder / "hub", BERT, {"pytorch_model.bin": evil})
    remote = {**BERT, "model_type": "evil", "auto_map": AUTO}
    hub(folder / "remote", remote, {})
    (folder / "remote" / "modeling_evil.py").write_text(MODELING.format(marker=str(marker)))


def hub(folder: Path, config: object, files: dict[str, bytes]) -> None:
    """A folder as `save_pretrained` writes it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (folder / name).write_bytes(content)
