"""Suffixes of files that stand for scripts; importing this costs nothing."""

NOTEBOOK_SUFFIX = ".ipynb"

PROGRAM_SUFFIX = ".pt2"
"""Of files that torch.export.save wrote."""

GRAPH_SUFFIX = ".onnx"

MODEL_SUFFIXES = (PROGRAM_SUFFIX, GRAPH_SUFFIX)
"""Of files that are models and no scripts; each stands for a script that loads and calls it."""

SCRIPT_SUFFIXES = (".py", NOTEBOOK_SUFFIX, *MODEL_SUFFIXES)
"""Of all files that `run_script` takes; one without a suffix is a script too."""
