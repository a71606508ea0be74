"""Why the cloud refused a launch is in the autoscaler's log, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from benchorch.executors.scheduling.launch_log import LOG, TAIL_BYTES, launch_log

LINE = (
    "2026-11-23 10:38:40,123\tINFO node_provider.py:492 -- Failed to launch 1 nodes of type "
    "{kind}: Node Launch Exception ({code}): {message}\n"
)
QUOTA = {"code": "VcpuLimitExceeded", "message": "You have requested more vCPU capacity"}


def test_the_last_refusal_is_reported_with_its_type(tmp_path: Path) -> None:
    log = launch_log(tmp_path)
    capacity = {"code": "InsufficientInstanceCapacity", "message": "None now"}
    lines = LINE.format(kind="a-spot", **capacity) + LINE.format(kind="b-on-demand", **QUOTA)
    (tmp_path / LOG).write_text(f"Launching 1 nodes\n{lines}more\n")
    expected = "b-on-demand: Node Launch Exception (VcpuLimitExceeded): You have requested more"
    assert log.last_refusal().startswith(expected)


def test_a_refused_call_is_reported_from_its_traceback(tmp_path: Path) -> None:
    log = launch_log(tmp_path)
    (tmp_path / LOG).write_text(
        "Traceback (most recent call last):\n  ...\n"
        "botocore.exceptions.ClientError: An error occurred (SignatureDoesNotMatch) when "
        "calling the DescribeInstances operation (reached max retries: 4): Signature expired: "
        "1 is earlier\n\n"
        "During handling of the above exception, another exception occurred:\n"
    )
    expected = "DescribeInstances: (SignatureDoesNotMatch) Signature expired: 1 is earlier"
    assert log.last_refusal() == expected


def test_refusals_of_earlier_sweeps_do_not_count(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text(LINE.format(kind="old", **QUOTA))
    log = launch_log(tmp_path)
    assert log.last_refusal() == ""
    with (tmp_path / LOG).open("a") as more:
        more.write(LINE.format(kind="new", **QUOTA))
    assert log.last_refusal().startswith("new:")


def test_a_log_that_was_rotated_or_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert launch_log(tmp_path).last_refusal() == ""
    (tmp_path / LOG).write_text("x" * 100)
    log = launch_log(tmp_path)
    (tmp_path / LOG).write_text("")
    assert log.last_refusal() == ""


def test_of_a_long_log_only_its_end_is_read(tmp_path: Path) -> None:
    log = launch_log(tmp_path)
    noise = "x" * TAIL_BYTES
    (tmp_path / LOG).write_text(LINE.format(kind="lost", **QUOTA) + noise)
    assert log.last_refusal() == ""
    with (tmp_path / LOG).open("a") as more:
        more.write("\n" + LINE.format(kind="near", **QUOTA))
    assert log.last_refusal().startswith("near:")
