"""Small programs to ask what-ifs of, and to change for true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchorch.trace.analysis import analyze
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.predict import Prediction, predict
from benchorch.trace.whatif.reading import parse
from support.trace_lab.kineto import write
from support.trace_lab.program import Kind, Launch, Program, Range, Step, Sync, Thread, Work
from support.trace_lab.simulator import simulate

US = 1_000


def basis_of(program: Program, place: Path) -> Basis:
    """By way of a file, as somebody would get it."""
    return prepare(analyze(write(simulate(program), place / "trace.json")))


def asked(basis: Basis, *changes: Mapping[str, object]) -> Prediction:
    """A prediction in the words of a file."""
    return predict(basis, parse({"changes": list(changes)}).changes)


def module(name: str, *steps: Step) -> Range:
    return Range(name=f"mod:{name}", body=steps, kind=Kind.ANNOTATION)


def called(*steps: Step) -> Program:
    """One thread, all of it in a marked range."""
    call = Range(name="benchorch:call", kind=Kind.ANNOTATION, body=steps)
    return Program(threads=(Thread(name="main", steps=(call,)),), marker=call.name)


def part(name: str, *steps: Step) -> Range:
    """A module with one operator of its name."""
    return module(f"layer.{name}", Range(name=f"aten::{name}", body=steps))


def mm(host_us: float = 20, kernel_us: float = 100, call_us: float = 4, **launch: int) -> Range:
    kernel = Launch(name="gemm", ns=int(kernel_us * US), call_ns=int(call_us * US), **launch)
    return part("mm", Work(ns=int(host_us * US)), kernel)


def relu(host_us: float = 20, kernel_us: float = 60, call_us: float = 4, **launch: int) -> Range:
    kernel = Launch(name="elementwise", ns=int(kernel_us * US), call_ns=int(call_us * US), **launch)
    return part("relu", Work(ns=int(host_us * US)), kernel)


def layer(*parts: Step) -> Program:
    """Modules in a module, then a wait for the device."""
    return called(module("layer", *parts), Sync())
