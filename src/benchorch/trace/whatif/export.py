"""A small graph for a page that answers what-ifs itself, with the owners of its time.

A reader of the arrays sweeps over the edges in order: the length of edge k is ``fixed_ns[k]`` plus
``ns[i] * scale[atom[i]]`` for i from ``first[k]`` to ``first[k + 1]``, and its head comes no
sooner than its tail plus that length. An atom's scale is the product of what its row of each
grouping is scaled by. The time of the last branch node is the makespan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.contraction import Contracted, contract, whole
from benchorch.trace.critical_path.replay import NEVER, steps
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.dag import Dag
from benchorch.trace.distinct import distinct
from benchorch.trace.events import NOTHING

MOST_BRANCH_NODES = 20_000

Grouping: TypeAlias = "tuple[Sequence[str], NDArray[np.int64]]"
"""Names of rows, and for each edge of the graph the row that its weight belongs to, or NOTHING."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """B branch nodes, K edges sorted by head, and A atoms: work that scales as one.

    Attributes:
        tail, head: (K,) numbers of branch nodes; 0 is the source, B - 1 the sink.
        fixed_ns: (K,) time in no group.
        first: (K + 1,) where the edge's entries in `atom` and `ns` begin.
        atom, ns: work on edges.
        rows: of each grouping the names of its rows.
        row_of_atom: of each grouping the row of each atom, -1 for none; (A,) each.
        makespan_ns: of the observed run.
        exact_gain_ns: speedups that save up to this are exact, but for half a nanosecond for each
            edge of the whole graph that is rounded there; beyond it the truth lies between the
            page's answer and ``makespan_ns - exact_gain_ns``. None where nothing was left out.
    """

    junctions: int  # number of branch nodes, under the name that pages read
    tail: tuple[int, ...]
    head: tuple[int, ...]
    fixed_ns: tuple[int, ...]
    first: tuple[int, ...]
    atom: tuple[int, ...]
    ns: tuple[int, ...]
    rows: Mapping[str, tuple[str, ...]]
    row_of_atom: Mapping[str, tuple[int, ...]]
    makespan_ns: int
    exact_gain_ns: int | None


def exported(
    dag: Dag,
    groups: Mapping[str, Grouping],
    most_branch_nodes: int = MOST_BRANCH_NODES,
    slack_ns: NDArray[np.int64] | None = None,
) -> Exported:
    """The graph for a page; ways with the most to spare are left out until it is small enough."""
    spare_ns = slack(dag) if slack_ns is None else slack_ns
    kept, exact_ns = _small(dag, spare_ns, most_branch_nodes)
    small = contract(dag, kept)
    atom_of_edge, row_of_atom = _atoms(dag, groups)
    atom, chain, ns = _on_chains(small, atom_of_edge, len(row_of_atom))
    of_chain = np.bincount(chain, weights=ns, minlength=len(small.tail)).astype(np.int64)
    return Exported(
        junctions=len(small.points),
        tail=tuple(small.tail.tolist()),
        head=tuple(small.head.tolist()),
        fixed_ns=tuple((small.lengths(steps(dag)) - of_chain).tolist()),
        first=tuple(np.searchsorted(chain, np.arange(len(small.tail) + 1)).tolist()),
        atom=tuple(atom.tolist()),
        ns=tuple(ns.tolist()),
        rows={name: tuple(rows) for name, (rows, _) in groups.items()},
        row_of_atom={
            name: tuple(row_of_atom[:, column].tolist()) for column, name in enumerate(groups)
        },
        makespan_ns=dag.makespan_ns,
        exact_gain_ns=exact_ns,
    )


def _small(
    dag: Dag, spare_ns: NDArray[np.int64], most: int
) -> tuple[NDArray[np.bool_], int | None]:
    """The edges of the least slack that make so few branch nodes, and how much may be saved."""
    chains = whole(dag)
    of_chain = spare_ns[chains.last]  # and of all its edges
    live = of_chain < NEVER // 2
    values = np.unique(of_chain[live])
    if len(values) < 2 or _branch_nodes(chains, live) <= most:
        return spare_ns < NEVER // 2, None
    low, high = 0, len(values) - 1  # what is critical stays however much it is; not all does
    while high - low > 1:
        middle = (low + high) // 2
        fits = _branch_nodes(chains, of_chain <= values[middle]) <= most
        low, high = (middle, high) if fits else (low, middle)
    return spare_ns <= values[low], int(values[low + 1])


def _branch_nodes(chains: Contracted, kept: NDArray[np.bool_]) -> int:
    """How many would be left of the graph with these of its chains, (K,)."""
    inward = np.bincount(chains.head[kept], minlength=len(chains.points))
    outward = np.bincount(chains.tail[kept], minlength=len(chains.points))
    return int(((inward + outward > 0) & ~((inward == 1) & (outward == 1))).sum())


def _atoms(dag: Dag, groups: Mapping[str, Grouping]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The atom of each edge, NOTHING where it is in no group, and each atom's rows, (A, groups)."""
    columns = [row for _, row in groups.values()] or [np.full(dag.edges, NOTHING)]
    code = np.zeros(dag.edges, dtype=np.int64)
    for (rows, _), column in zip(groups.values(), columns, strict=False):
        code = code * (len(rows) + 1) + column + 1
    grouped = (code > 0) & (dag.weight_ns > 0)
    atoms = distinct(code[grouped])
    found = np.full(dag.edges, NOTHING, dtype=np.int64)
    found[grouped] = atoms.place
    edges = np.flatnonzero(grouped)[atoms.first]
    return found, np.stack([column[edges] for column in columns], axis=1)


def _on_chains(
    small: Contracted, atom_of_edge: NDArray[np.int64], atoms: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """What each chain has of each atom: atoms, chains in order, and nanoseconds."""
    chain = np.repeat(np.arange(len(small.tail)), small.sizes)
    atom = atom_of_edge[small.edges]
    known = atom >= 0
    key, place = np.unique(chain[known] * max(atoms, 1) + atom[known], return_inverse=True)
    ns = np.bincount(place, weights=small.dag.weight_ns[small.edges[known]], minlength=len(key))
    return key % max(atoms, 1), key // max(atoms, 1), ns.astype(np.int64)
