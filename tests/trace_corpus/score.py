"""Score an analysis: python score.py ADAPTER.py[:FUNCTION] [--truth FILE ...] [--only NAME ...] [--out FILE]

The adapter's function (default ``analyse``) is called as ``analyse(traces, whatifs, info)``, see README.md.  Exit
status 0 when all goals are met.
"""

import argparse
import importlib.util
import json
import math
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {"verdicts": 0.95, "predictions": 0.90, "coverage": 0.85, "periods": 0.90}
DILATED = 1.5  # a profile this much slower (or faster) than the measurement is void for predictions


def load(spec):
    path, _, fn = spec.partition(":")
    s = importlib.util.spec_from_file_location("adapter", path)
    m = importlib.util.module_from_spec(s)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    s.loader.exec_module(m)
    return getattr(m, fn or "analyse")


def void(dilation):
    """Whether a profile is too unlike the measurement to predict anything of it."""
    return not 1 / DILATED <= dilation <= DILATED


def number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


def judge(rec, folder, analyse):
    """One case: what was right, and why what was wrong is wrong."""
    tol = rec["tolerance"]
    info = {
        "name": rec["name"],
        "marks": rec.get("marks"),
        "format": rec.get("format", "torch"),
        "measured_period_ns": rec["period_ns"] if rec["kind"] == "cpu_program" else None,
    }
    whatifs = [
        {
            "name": w["name"],
            "words": w["words"],
            "change": w["change"] if isinstance(w["change"], list) else [w["change"]],
        }
        for w in rec["whatifs"]
    ]
    out = {
        "name": rec["name"],
        "kind": rec["kind"],
        "want": rec["accept"],
        "got": None,
        "verdict_ok": False,
        "period_ok": None,
        "predictions": [],
        "error": None,
    }
    t = time.process_time()
    try:
        got = analyse([os.path.join(folder, p) for p in rec["traces"]], whatifs, info)
    except Exception:
        out["error"] = traceback.format_exc(limit=3)
        got = {}
    out["cpu_s"] = round(time.process_time() - t, 3)
    got = got or {}
    out["got"] = got.get("class")
    out["verdict_ok"] = got.get("class") in rec["accept"]
    cpu = rec["kind"] == "cpu_program"
    base = rec.get("profiled_period_ns") if cpu else rec["period_ns"]
    p = got.get("period_ns")
    out["period_ns"], out["true_period_ns"] = p, base
    if base:
        out["period_ok"] = number(p) and abs(p / base - 1) <= tol
    out["void"] = cpu and void(rec.get("dilation", 9))
    for w in rec["whatifs"]:
        if out["void"] or not w.get("stable", True):
            continue
        t3 = (got.get("predictions") or {}).get(w["name"])
        row = {
            "name": w["name"],
            "words": w["words"],
            "true_ns": w["period_ns"],
            "low": None,
            "value": None,
            "high": None,
            "scored": w.get("value_scored", True),
            "ok": False,
            "covered": False,
        }
        if t3 is not None and len(t3) == 3 and all(number(x) for x in t3):
            # programs really run: the profile may be slower than the measurement, so ratios are compared
            k = rec["period_ns"] / p if cpu and number(p) and p > 0 else 1.0
            lo, v, hi = (x * k for x in t3)
            row.update(
                low=round(lo),
                value=round(v),
                high=round(hi),
                ok=abs(v / w["period_ns"] - 1) <= tol,
                covered=lo <= w["period_ns"] * 1.0005 and hi >= w["period_ns"] * 0.9995,
                error=round(v / w["period_ns"] - 1, 4),
                width=round((hi - lo) / w["period_ns"], 4),
            )
        out["predictions"].append(row)
    return out


def share(x):
    x = list(x)
    return (sum(x) / len(x) if x else None), len(x)


def total(res):
    t = {}
    for kind in ("simulator", "cpu_program", "all"):
        r = [x for x in res if kind in (x["kind"], "all")]
        if not r:
            continue
        pr = [p for x in r for p in x["predictions"]]
        w = sorted(p["width"] for p in pr if "width" in p)
        t[kind] = {
            "verdicts": share(x["verdict_ok"] for x in r),
            "predictions": share(p["ok"] for p in pr if p["scored"]),
            "coverage": share(p["covered"] for p in pr),
            "periods": share(x["period_ok"] for x in r if x["period_ok"] is not None),
            "median_width": w[len(w) // 2] if w else None,
            "errors": sum(x["error"] is not None for x in r),
            "void": sum(x["void"] for x in r),
            "cases": len(r),
        }
    return t


def main():
    a = argparse.ArgumentParser()
    a.add_argument("adapter")
    a.add_argument("--truth", nargs="*")
    a.add_argument("--only", nargs="*")
    a.add_argument("--out")
    o = a.parse_args()
    files = o.truth or [
        f
        for f in (f"{HERE}/traces/truth.json", f"{HERE}/traces_cpu/truth.json")
        if os.path.exists(f)
    ]
    fn, res = load(o.adapter), []
    for f in files:
        with open(f) as h:
            for rec in json.load(h):
                if o.only and rec["name"] not in o.only or not rec.get("traces"):
                    continue
                x = judge(rec, os.path.dirname(os.path.abspath(f)), fn)
                res.append(x)
                bad = [p for p in x["predictions"] if p["scored"] and not p["ok"]]
                print(
                    f"{'ok ' if x['verdict_ok'] else 'BAD'} {x['name']}: {x['got']} (want {'/'.join(x['want'])}); period "
                    f"{'ok' if x['period_ok'] else 'BAD' if x['period_ok'] is False else '-'}"
                    f" {(x['period_ns'] or 0) / 1e6:.3f} of {(x['true_period_ns'] or 0) / 1e6:.3f} ms; "
                    f"{len(x['predictions']) - len(bad)} of {len(x['predictions'])} predictions"
                )
                for p in bad:
                    print(
                        f"      {p['words']}: {(p['value'] or 0) / 1e6:.3f}, true {p['true_ns'] / 1e6:.3f} ms"
                        f"{'' if p['covered'] else ', not in the interval'}"
                    )
                if x["error"]:
                    print("      " + x["error"].strip().splitlines()[-1])
    t = total(res)
    met = True
    for kind, v in t.items():
        print(
            f"{kind}: "
            + ", ".join(
                f"{k} {100 * v[k][0]:.1f} % of {v[k][1]}" for k in GOALS if v[k][0] is not None
            )
            + f", median width {v['median_width']}, errors {v['errors']}, void {v['void']}"
        )
    for k, g in GOALS.items():
        met = met and t.get("all", {}).get(k, (0, 0))[0] is not None and t["all"][k][0] >= g
    if o.out:
        with open(o.out, "w") as f:
            json.dump({"goals": GOALS, "totals": t, "cases": res}, f, indent=1)
    print("goals met" if met else "goals not met")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
