"""Reports of Lightning's profilers, as lightning 2.6 and older versions print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.frameworks.lightning_report import LightningReport, read_lightning_reports

SIMPLE = """
FIT Profiler Report

-------------------------------------------------------------------------------------
|  Action                        |  Mean duration (s) |  Total time (s) |
-------------------------------------------------------------------------------------
|  [LightningModule]BoringModel.prepare_data       |  10.0001           |  20.00          |
|  run_training_batch            |  0.0022506         |  0.015754       |
|  [Callback]Mine{'a|b'}.setup   |  1.426e-06         |  1.426e-06      |
-------------------------------------------------------------------------------------
"""
EXTENDED = """Epoch 0: 100%
PREDICT Profiler Report

----------------------------------------------------------------------------------------
|  Action \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|  Percentage %   \t|
----------------------------------------------------------------------------------------
|  Total  \t|  -              \t|  187            \t|  0.29855        \t|  100 %          \t|
----------------------------------------------------------------------------------------
|  predict_step  \t|  0.038363       \t|  5              \t|  0.19181   \t|  64.248  \t|
|  cut
"""
ADVANCED = """FIT Profiler Report
Profile stats for: [Strategy]Single.training_step rank: 0
         19 function calls (7 primitive calls) in 0.031 seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      5/1    0.001    0.000    0.030    0.030 lit.py:11(training_step)
        5    0.020    0.004    0.020    0.004 {built-in method torch._C._nn.linear}


Profile stats for: save_checkpoint
         2 function calls in 0.052 seconds
"""
PYTORCH = """FIT Profiler Report
Profile stats for: records
--------------------  ------------  ------------  ------------  ------------
                Name    Self CPU %      Self CPU     CPU total    # of Calls
--------------------  ------------  ------------  ------------  ------------
     aten::add_ like        30.69%      21.631us      46.762ms             3
   autograd::eval...         0.17%        1.200s        2.000s             1
--------------------  ------------  ------------  ------------  ------------
Self CPU time total: 70.480ms
"""


def reports(folder: Path, text: str) -> tuple[LightningReport, ...]:
    (folder / "report.txt").write_text(text)
    return read_lightning_reports(folder / "report.txt")


def test_a_plain_table_tells_totals_and_how_often(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, SIMPLE)
    assert (report.stage, report.profiler, report.wall_s) == ("fit", "simple", None)
    assert [(row.name, row.calls, row.total_s) for row in report.rows] == [
        ("[LightningModule]BoringModel.prepare_data", 2, 20.0),
        ("run_training_batch", 7, 0.015754),
        ("[Callback]Mine{'a|b'}.setup", 1, 1.426e-06),
    ]


def test_an_extended_table_within_a_log_tells_the_whole_run(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, EXTENDED)
    assert (report.stage, report.wall_s) == ("predict", 0.29855)
    assert [(row.name, row.calls) for row in report.rows] == [("predict_step", 5)]


def test_functions_stand_within_their_action(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, ADVANCED)
    assert report.profiler == "advanced"
    step = "[Strategy]Single.training_step"
    assert [(row.within, row.name, row.calls, row.total_s, row.self_s) for row in report.rows] == [
        ("", "save_checkpoint", None, 0.052, None),
        ("", step, None, 0.031, None),
        (step, "lit.py:11(training_step)", 5, 0.03, 0.001),
        (step, "{built-in method torch._C._nn.linear}", 5, 0.02, 0.02),
    ]


def test_operators_are_read_in_their_own_units(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, PYTORCH)
    assert report.profiler == "pytorch"
    assert [(row.name, row.calls, row.total_s, row.self_s) for row in report.rows] == [
        ("autograd::eval...", 1, 2.0, 1.2),
        ("aten::add_ like", 3, pytest.approx(0.046762), pytest.approx(21.631e-6)),
    ]


def test_one_file_may_hold_several(tmp_path: Path) -> None:
    found = reports(tmp_path, SIMPLE + EXTENDED)
    assert [(report.stage, len(report.rows)) for report in found] == [("fit", 3), ("predict", 1)]


@pytest.mark.parametrize("text", ["", "{}", "no Profiler Report in a line of its own"])
def test_other_text_is_no_report(tmp_path: Path, text: str) -> None:
    assert reports(tmp_path, text) == ()


def test_a_report_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    for text in (SIMPLE, EXTENDED, ADVANCED, PYTORCH):
        for end in range(30, len(text), 7):
            for report in reports(tmp_path, text[:end]):
                assert all(row.total_s >= 0 for row in report.rows)
