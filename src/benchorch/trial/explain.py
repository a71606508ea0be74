"""Critical path of a profiled call, from its trace alone.

It runs in a process of its own when nothing is measured any more, and never imports torch.
"""

from pathlib import Path

from benchorch.domain.codec import decode
from benchorch.domain.profile import OPERATORS_FILE, BottleneckVerdict
from benchorch.files import read_json
from benchorch.trace.analysis import analyze
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.provenance import beside
from benchorch.trace.report.write import write
from benchorch.trial.stages import ExplainRequest, Reporter

FOLDER = "critical_path"


def explain(request: ExplainRequest, report: Reporter) -> BottleneckVerdict:
    """What limits the trace's calls; reported before pages are drawn in the trial's folder."""
    trace = request.folder / request.profile.trace
    graph = _graph_beside(trace)
    analysis = analyze(
        trace,
        graph=graph,
        dilation_ratio=request.profile.dilation_ratio,
        provenance=beside(trace, {node.name for node in graph.nodes} if graph else ()),
    )
    found = analysis.verdict
    bottleneck = BottleneckVerdict(
        limit=found.limit,
        sentence=found.sentence,
        advice=found.advice,
        largest=found.largest,
        largest_gain_ratio=found.largest_gain_ratio,
        critical_path_ns=analysis.path.length_ns,
        classes_ns={str(name): int(spent) for name, spent in analysis.classes.items()},
    )
    report.send_partial(bottleneck)
    write(analysis, request.folder / FOLDER)
    return bottleneck


def _graph_beside(trace: Path) -> OperatorGraph | None:
    path = trace.with_name(OPERATORS_FILE)
    return decode(OperatorGraph, read_json(path)) if path.exists() else None
