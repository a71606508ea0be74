"""Suffixes of script files; importing this module is free."""

SEED = 0
"""Seed of a script's random numbers during discovery: the default of workload.seed."""

DEFINITIONS = "script_definitions.py"
"""In a module's source bundle, the script's own classes and functions that the module needs."""

NOTEBOOK_SUFFIX = ".ipynb"

PROGRAM_SUFFIX = ".pt2"
"""Suffix of files written by torch.export.save."""

GRAPH_SUFFIX = ".onnx"

MODEL_SUFFIXES = (PROGRAM_SUFFIX, GRAPH_SUFFIX)
"""Suffixes of model files; each is run by a generated script that loads and calls it."""

SCRIPT_SUFFIXES = (".py", NOTEBOOK_SUFFIX, *MODEL_SUFFIXES)
"""Suffixes that `run_script` accepts; a file without a suffix is a script too."""
