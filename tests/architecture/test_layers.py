"""What import-linter, which `make check` runs, does not look at."""

from __future__ import annotations

import graphlib

import grimp


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("benchorch", exclude_type_checking_imports=False, cache_dir=None)
    imported = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    graphlib.TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle
