"""Score the analysis on recorded programs: python score_programs.py FOLDER [--unseen] [NAME ...]

FOLDER holds what `running.py` writes; --unseen chooses the programs that were kept apart while the analysis was mended.
A prediction is right if its ratio to the period is within a tenth of the true
ratio; a refused one is counted apart, neither right nor covered.  Profiles whose dilation is outside 1/1.5 to 1.5 are void:
their predictions are shown and counted apart, their verdicts and periods count.  The analysis is told the dilation, as
it is of a trial's own profile.
"""

import json
import sys
from pathlib import Path

from score import void

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.whatif.basis import prepare
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse


def judge(true):
    files = [Path(f) for f in true["files"]]
    analysis = analyze(files, range_name=true["range"], dilation_ratio=true["dilation"])
    verdict = analysis.verdict.limit
    period = analysis.steps.period_ns
    rows = []
    basis = prepare(analysis)
    for name, change in true["changes"].items():
        try:
            said = predict(basis, parse(change["whatif"]).changes)
        except TraceError as error:
            rows.append((name, change, None, str(error)))
            continue
        base = said.makespan_ns
        rows.append(
            (name, change, [x / base for x in (said.low_ns, said.predicted_ns, said.high_ns)], "")
        )
    return verdict, period, rows


def main():
    folder, *rest = sys.argv[1:]
    only = [one for one in rest if not one.startswith("-")]
    count = dict.fromkeys(
        ("verdicts", "right", "verdict period", "predictions", "correct", "covered", "refused"), 0
    )
    count |= {"void programs": 0, "void predictions": 0}
    widths = []
    for path in sorted(Path(folder).glob("*.truth.json")):
        true = json.loads(path.read_text())
        if only and true["name"] not in only or "--unseen" in rest and not true["unseen"]:
            continue
        try:
            verdict, period, rows = judge(true)
        except TraceError as error:
            verdict, period, rows = str(error), None, []
        ok = {"inconclusive": "none"}.get(verdict, verdict) in true["classes"]
        near = period and abs(period / true["profiled_period_ns"] - 1) <= 0.10
        count["verdicts"] += 1
        count["right"] += ok
        count["verdict period"] += bool(near)
        apart = void(true["dilation"])
        count["void programs"] += apart
        print(
            f"{'ok ' if ok else 'BAD'} {true['name']}: {verdict} (right: {'/'.join(true['classes'])}); period "
            f"{(period or 0) / 1e6:.2f} of {true['profiled_period_ns'] / 1e6:.2f} ms; dilation {true['dilation']:.2f}"
            f"{': void for predictions' if apart else ''}"
        )
        for name, change, found, why in rows:
            want = change["ratio"]
            note = "" if change["stable"] else f" (unstable: {change['spread']:.2f}, not scored)"
            scored = change["stable"] and not apart
            count["void predictions"] += change["stable"] and apart
            if found is None:
                print(f"      {name}: refused: {why}{note}")
                count["refused"] += scored
                count["predictions"] += scored
                continue
            low, value, high = found
            right, inside = (
                abs(value / want - 1) <= 0.10,
                low <= want * 1.001 and want * 0.999 <= high,
            )
            print(
                f"      {'ok ' if right else 'BAD'} {name}: {value:.3f} [{low:.3f}, {high:.3f}], true {want:.3f}"
                f"{'' if inside else ', not in the interval'}{note}"
            )
            if scored:
                count["predictions"] += 1
                count["correct"] += right
                count["covered"] += inside
                widths.append((high - low) / want)
    widths.sort()
    print(count, "median width", round(widths[len(widths) // 2], 3) if widths else None)


if __name__ == "__main__":
    main()
