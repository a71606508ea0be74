"""The graph from which the page's script predicts what-ifs, and the names of its work.

The graph is contracted to its branch nodes. Where they are too many for a page, only dependencies
with little slack are kept: predictions stay exact as long as they save no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
from numpy import int64
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category
from benchorch.trace.report.ancestry import Ancestry
from benchorch.trace.report.call_chains import Chain, call_chains
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.export import Grouping, exported
from benchorch.trace.whatif.selector_values import WORK


def whatif_form(
    basis: Basis, above: Ancestry, spare_ns: NDArray[int64] | None = None
) -> dict[str, object]:
    """The columns of `Exported` for the page's script, and the names that can be selected.

    Work is identified by its class, module, kernel and chain of operators: chain k is called by
    an operator of type ``chain_type[k]`` and name ``chain_operator[k]``, that by the chain
    ``chain_caller[k]``, and so on up to chain 0, which is none.
    """
    groups, chains = _groups(basis, above)
    graph = exported(basis.dag, groups, slack_ns=spare_ns)
    names = {"": 0}
    operators = [_named(basis.events.names, code) for _, code in chains]
    types = [above.types.get(code, "") for _, code in chains]
    found: dict[str, object] = {entry.name: getattr(graph, entry.name) for entry in fields(graph)}
    return found | {
        "chain_caller": [caller for caller, _ in chains],
        "chain_operator": [names.setdefault(name, len(names)) for name in operators],
        "chain_type": [names.setdefault(name, len(names)) for name in types],
        "names": list(names),
        "work": [CLASSES.index(label) for label in WORK],
    }


def _named(names: Sequence[str], code: int) -> str:
    return names[code] if code != NOTHING else ""


def _groups(basis: Basis, above: Ancestry) -> tuple[Mapping[str, Grouping], list[Chain]]:
    """Of every edge the class, module, kernel and chain of operators, each by its number."""
    dag, events = basis.dag, basis.events
    operator = np.isin(events.category, (Category.OPERATOR, Category.NODE))
    chain, chains = call_chains(above.owned.parent, np.where(operator, events.name, NOTHING))
    device = np.isin(events.category, DEVICE_WORK)
    kernels = np.unique(events.name[device])
    kernel = np.where(device, np.searchsorted(kernels, events.name), NOTHING)

    def of_edge(of_event: NDArray[int64]) -> NDArray[int64]:
        found: NDArray[int64] = np.append(of_event, NOTHING)[dag.owner]
        return found

    groups: dict[str, Grouping] = {
        "class": ([label.value for label in CLASSES], dag.label.astype(np.int64)),
        "module": (basis.modules, of_edge(basis.module)),
        "kernel": ([events.names[code] for code in kernels], of_edge(kernel)),
        "chain": ([""] * len(chains), of_edge(chain)),
    }
    return groups, chains
