import math
import sys
from pathlib import Path

import torch

from benchorch.frameworks.module_fingerprint import content_identity, state_digest


class Net(torch.nn.Module):
    def __init__(self, *, act=torch.sin, scales=(1, 2), private=0.5):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.act = act
        self.scales = list(scales)
        self._private = private

    def forward(self, x):
        return self.act(self.linear(x)) * self._private


def test_the_same_module_has_the_same_identity():
    assert content_identity(Net()) == content_identity(Net())


def test_whatever_changes_what_is_computed_changes_the_identity():
    plain = content_identity(Net())
    others = [Net(act=torch.cos), Net(scales=(1, 3)), Net(private=2.0), Net(act=math.sqrt)]
    assert all(content_identity(other) != plain for other in others)


def test_one_weight_in_the_middle_changes_the_state():
    module, other = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)
    other.load_state_dict(module.state_dict())
    assert state_digest(module) == state_digest(other)
    with torch.no_grad():
        other.weight[256, 256] += 1e-6
    assert state_digest(module) != state_digest(other)


def test_the_users_own_code_enters_with_every_module_it_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    helper = tmp_path / "a_helper_of_mine.py"
    helper.write_text("SCALE = 1\n")
    __import__("a_helper_of_mine")
    before = content_identity(Net())
    helper.write_text("SCALE = 2\n")
    after = content_identity(Net())
    del sys.modules["a_helper_of_mine"]
    assert before["code"].keys() == after["code"].keys()
    assert "a_helper_of_mine" in before["code"]
    assert before != after


def test_what_an_installed_package_generates_is_not_the_users_code(tmp_path, monkeypatch):
    generated = tmp_path / "generated.py"
    generated.write_text("x = 1\n")
    module = type(sys)("torch._inductor.generated_by_a_compiler")
    module.__file__ = str(generated)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert module.__name__ not in content_identity(Net())["code"]


def test_installed_packages_are_told_by_their_versions_and_not_by_their_files():
    code = content_identity(Net())["code"]
    assert not any(name.partition(".")[0] in ("torch", "numpy", "benchorch") for name in code)
    assert all(Path(sys.modules[name].__file__).exists() for name in code)
