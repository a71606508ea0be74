import contextvars

import torch

from benchorch.frameworks.module_fingerprint import content_of, state_digest


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


class Knot:
    def __init__(self):
        self.itself = self
        self.deep = []
        for _ in range(1000):
            self.deep = [self.deep]


def test_the_same_module_has_the_same_content():
    assert content_of(Net()).fields == content_of(Net()).fields


def test_whatever_changes_what_is_computed_changes_the_content():
    plain = content_of(Net()).fields
    others = [Net(act=torch.cos), Net(scales=(1, 3)), Net(private=2.0), Net(act=abs)]
    assert all(content_of(other).fields != plain for other in others)


def test_one_weight_in_the_middle_changes_the_state():
    module, other = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)
    other.load_state_dict(module.state_dict())
    assert state_digest(module) == state_digest(other)
    assert content_of(module).fields == content_of(other).fields
    with torch.no_grad():
        other.weight[256, 256] += 1e-6
    assert state_digest(module) != state_digest(other)
    assert content_of(module).fields != content_of(other).fields


def test_packages_count_by_version_and_content_and_the_users_code_by_what_is_reached():
    fields = content_of(Net()).fields
    assert set(fields["packages"]) == {"torch"}
    assert all(name.endswith(("Net.__init__", "Net.forward")) for name in fields["code"])


def test_cycles_end_and_what_is_too_deep_is_not_hashable():
    module = Net()
    module.knot = Knot()
    assert any("deep" in path for path in content_of(module).fields["unhashable"])


def test_tensors_of_every_layout_are_read():
    dense = torch.eye(3)
    kinds = [
        dense,
        dense.to_sparse(),
        dense.to_sparse_csr(),
        dense.bfloat16(),
        dense.to(torch.complex64).conj(),
        dense[:, 1:],
        torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8),
        torch.quantize_per_channel(dense, torch.ones(3), torch.zeros(3), 0, torch.qint8),
        torch.tensor(1.0),
        torch.empty(0),
    ]
    found = [content_of(Net(private=kind)).fields for kind in kinds]
    assert all("unhashable" not in one for one in found)
    assert len({str(one["module"]) for one in found}) == len(kinds)
    copies = [content_of(Net(private=kind.clone())).fields for kind in kinds[:5]]
    assert [one["module"] for one in copies] == [one["module"] for one in found[:5]]


def test_a_context_variable_named_by_an_address_is_the_same_in_each_process():
    held = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    for module, address in zip(held, (140548482342480, 140548483485328), strict=True):
        module.variable = contextvars.ContextVar(f"patch[{address}]")
    found = [content_of(module).fields["module"] for module in held]
    assert found[0] == found[1]


def test_a_tensor_without_values_is_not_hashable():
    module = Net(private=torch.empty(3, device="meta"))
    assert "unhashable" in content_of(module).fields


def test_a_scripted_module_and_a_traced_graph_are_told_by_what_they_compute():
    class Twice(torch.nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return x * self.k

    for make in (torch.fx.symbolic_trace, lambda m: torch.jit.trace(m, torch.ones(2))):
        first, other = (content_of(make(Twice(k))).fields for k in (2.0, 3.0))
        assert first != other
        assert "unhashable" not in first
