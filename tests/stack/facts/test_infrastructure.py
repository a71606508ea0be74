"""Terraform, start scripts and source rely on what the table of facts has, and on nothing else."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3  # noqa: TID251 - its list of regions
import pytest
import ray  # noqa: TID251 - its own launcher's defaults
import yaml

from benchorch.executors.scheduling import spot_interruption
from benchorch.executors.scheduling.cluster_status import LAUNCH_REMEDIES
from benchorch.hardware import aws_fleet, aws_stack
from benchorch.stores.objects import Objects
from support.aws_emulator.images import FACTS, facts

sys.path.insert(0, str(FACTS.parents[1] / "scripts"))
import stack_home
import stack_image
from account_checks import images

TABLE = facts()
INFRA = Path(os.environ.get("BENCHORCH_TEST_INFRA", FACTS.parent))
TERRAFORM = INFRA / "terraform"
CHECKOUT = FACTS.parents[1]
CODE = [*TERRAFORM.rglob("*.tf"), *TERRAFORM.rglob("*.tftpl"), *TERRAFORM.rglob("*.py")]
HCL = [path for path in CODE if path.suffix == ".tf"]
LONGEST_NAME = 31


@functools.cache
def text_of(path: Path) -> str:
    """A file without its comments."""
    return re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    """Name and text of each top-level block of a kind, such as ``resource "aws_subnet"``."""
    pattern = rf"^{kind} \"?(?P<name>[\w\"]*)\"? ?\{{(?P<body>.*?)^\}}"
    for path in HCL:
        for found in re.finditer(pattern, text_of(path), re.MULTILINE | re.DOTALL):
            yield f"{path.parent.name}.{found['name']}", found["body"]


def found(pattern: str, files: list[Path] = CODE) -> list[str]:
    return [match for path in files for match in re.findall(pattern, text_of(path))]


def test_public_image_parameters_are_those_of_the_table() -> None:
    named = found(r"/aws/service/(?:canonical|deeplearning|neuron)[^\"'\s]+")
    known = [fact.value for name, fact in TABLE.items() if name.startswith("image.")]
    known = [value for value in known if str(value).startswith("/aws/service/")]
    assert named, "no image is named"
    for name in named:
        pattern = re.compile(re.sub(r"\\\$\\\{[^/]*?\\\}", "[^/]+", re.escape(name)))
        assert any(pattern.fullmatch(value) for value in known), f"{name} is not in the table"


def test_the_driver_of_gpu_images_runs_the_cuda_that_nodes_install() -> None:
    lock = (FACTS.parent / "locks" / "cuda-x86_64.txt").read_text()
    [runtime] = re.findall(r"(?m)^nvidia-cuda-runtime==(\d+\.\d+)", lock)
    most = TABLE["image.gpu.driver"].value["cuda"]
    assert [*map(int, runtime.split("."))] <= [*map(int, most.split("."))]


def test_the_check_examines_the_images_that_machines_are_launched_from() -> None:
    named = dict(found(r'(?m)^\s+(\w+)\s+= "(/aws/service/[^"]+)"$', HCL))
    examined = ["image.server.x86_64", "image.server.arm64", "image.gpu.x86_64"]
    examined += ["image.neuron.x86_64"]
    assert named == {images._of_terraform(name): TABLE[name].value for name in examined}


def test_every_kind_of_resource_has_the_actions_that_making_it_needs() -> None:
    kinds = set(found(r'(?m)^resource "(\w+)"', HCL))
    table = yaml.safe_load((FACTS.parent / "permissions.yaml").read_text())["resources"]
    assert kinds == table.keys()


def test_services_are_named_as_aws_names_them() -> None:
    named = set(found(r'"([a-z][a-z.-]*\.amazonaws\.com)"'))
    assert named
    assert not named - set(TABLE["principals"].value)


def test_no_head_starts_before_what_ends_it() -> None:
    """A budget that is refused, for example, would leave a head without reaper."""
    [cluster] = [body for name, body in blocks("module") if name.endswith('.cluster"')]
    [before] = re.findall(r"depends_on = \[(.*)\]", cluster)
    assert {"module.access", "module.guards", "module.reaper"} <= set(before.split(", "))


def test_machines_have_tokens_of_metadata_and_end_when_they_shut_down() -> None:
    templates = list(blocks('resource "aws_launch_template"'))
    assert templates
    for name, body in templates:
        assert re.search(r'http_tokens\s*=\s*"required"', body), name
        ends = TABLE["asg.shutdown_behavior"].value
        assert re.search(rf'instance_initiated_shutdown_behavior\s*=\s*"{ends}"', body), name


def test_machines_their_disks_and_interfaces_are_tagged_by_their_templates() -> None:
    """Default tags do not reach them, and a group's tags reach instances alone."""
    for name, body in blocks('resource "aws_launch_template"'):
        for kind in ("instance", "volume", "network-interface"):
            assert kind in TABLE["ec2.tagged_at_launch"].value
            tagged = re.search(r"tag_specifications", body) and f'"{kind}"' in body
            assert tagged, f"{name} does not tag its {kind}"


def test_machines_are_reached_by_the_policy_that_reads_no_parameters() -> None:
    fact = TABLE["ssm.instance_policy"].value
    attached = [name for name in found(r"policy/(Amazon\w+)", HCL) if "SSM" in name]
    assert attached == [fact["least"]]


def test_a_head_counts_as_used_while_a_sweep_or_a_session_lasts() -> None:
    [used] = found(r"(?m)^\s*used='(.*)'$", sorted(TERRAFORM.glob("scripts/*.tftpl")))
    place = "/usr/local/lib/benchorch"
    for command in (
        f"{place}/env/bin/python -P -m benchorch resume=p",
        f"{place}/env/bin/python {place}/env/bin/benchorch model=mlp",
        f"bash {place}/make_packages.sh cuda-x86_64-0",
        f"/snap/amazon-ssm-agent/1/{TABLE['ssm.session_process'].value} ada-0",
    ):
        assert re.search(used, command), command
    for command in (
        "/bin/bash /var/lib/cloud/instance/scripts/part-001",
        f"{place}/env/bin/python {place}/env/bin/ray start --head --block",
        "/snap/amazon-ssm-agent/1/amazon-ssm-agent",
    ):
        assert not re.search(used, command), command


def test_ray_may_open_as_many_files_as_its_own_launcher_lets_it() -> None:
    defaults = Path(ray.__file__).parent / "autoscaler" / "aws" / "defaults.yaml"
    wanted = [str(TABLE["ray.open_files"].value)]
    assert set(re.findall(r"ulimit -n (\d+); ray start", defaults.read_text())) == set(wanted)
    scripts = [TERRAFORM / "scripts" / "common.sh.tftpl"]  # before head and worker start Ray
    assert found(r"(?m)^ulimit -n (\d+)\b", scripts) == wanted


def test_nothing_is_upgraded_beside_a_measurement() -> None:
    masked = found(r"systemctl mask ([\w. -]+) >")
    assert [line.split() for line in masked] == [TABLE["image.upgrades_itself"].value]


def test_start_scripts_bring_what_the_image_lacks_and_need_none_of_it_before() -> None:
    scripts = sorted(TERRAFORM.glob("scripts/*.tftpl"))
    lacks = set(TABLE["image.server.lacks"].value)
    [installed] = found(r"apt-get install [^>\n]*", scripts)
    assert lacks - set(installed.split()) == {"awscli"}
    assert not found(r"(?m)^.*\baws (?:s3|ssm|ec2|sts)\b.*$", scripts)


def test_nothing_is_installed_by_its_name_alone_from_an_index() -> None:
    """A name that nobody owns would be somebody else's program, as root on every machine."""
    scripts = [*TERRAFORM.glob("scripts/*.tftpl"), *TERRAFORM.glob("scripts/*.sh")]
    calls = found(r"(?m)^.*\bpip (?:install|download|wheel)\b.*$", scripts)
    assert len(calls) >= 5
    bound = ("--no-index", "--require-hashes", "--no-build-isolation")
    assert not [line for line in calls if not any(word in line for word in bound)]


def test_nothing_is_made_that_nobody_reads() -> None:
    """No server without a use, no queue without a reader, no alarm that tells nobody."""
    kinds = set(found(r'(?m)^resource "(\w+)"', HCL))
    assert not kinds & {"aws_instance", "aws_sqs_queue", "aws_cloudwatch_event_rule"}
    alarms = list(blocks('resource "aws_cloudwatch_metric_alarm"'))
    assert alarms
    assert all("alarm_actions" in body for _, body in alarms)


def test_other_partitions_are_refused_and_no_region_of_awss_own_is() -> None:
    [refused] = found(r'!can\(regex\("(\^\([^"]+)", var.region\)\)', HCL)
    session = boto3.Session()
    for partition in session.get_available_partitions():
        for region in session.get_available_regions("ec2", partition):
            assert (re.match(refused, region) is None) == (partition == "aws"), region
    prefixes = TABLE["region.partitions"].value
    assert all(re.match(refused, f"{prefix}-north-1") for prefix in prefixes)


def test_a_write_that_must_be_new_is_one_put_and_needs_no_exemption() -> None:
    rule = TABLE["s3.enforced_conditional"].value
    assert found(r'variable = "(s3:if-none-match)"', HCL) == [rule["key"]]
    assert rule["exempts"] not in "".join(map(text_of, HCL))
    add = inspect.getsource(Objects.add)
    assert "put_object" in add
    assert "IfNoneMatch" in add


def test_a_policy_that_grows_with_the_fleet_is_bounded_by_what_iam_takes() -> None:
    limit = str(TABLE["role.inline_policy_chars"].value)
    assert found(r"length\(replace\(.*<= (\d+)", HCL) == [limit]


def test_refusals_of_a_groups_launches_are_those_of_the_table() -> None:
    source = inspect.getsource(aws_fleet.refused_launch)
    assert all(f'"{status}"' in source for status in TABLE["asg.refusals"].value)
    reason = f"InvalidParameterCombination - The type is {TABLE['error.free_plan'].value}"
    assert aws_fleet._MAY_PASS.search(reason) is None
    assert aws_fleet._MAY_PASS.search(TABLE["error.capacity"].value)
    assert not aws_fleet._MAY_PASS.search(TABLE["error.quota.on_demand"].value)


def test_a_bake_goes_to_another_zone_where_the_table_says_that_one_has_no_machine() -> None:
    refusals = {TABLE["error.capacity"].value, TABLE["error.unsupported"].value}
    assert set(stack_image._TRY_ELSEWHERE) == refusals


def test_gpus_of_other_makers_and_parts_of_one_are_counted_as_none() -> None:
    maker = TABLE["ec2.gpu_maker"].value["maker"]
    assert found(rf'gpu\.count if gpu\.manufacturer == "({maker})"', HCL) == [maker]


def test_tag_keys_are_those_that_metadata_can_show() -> None:
    keys = re.compile(TABLE["ec2.metadata_tag_key"].value)
    shown = found(r'instance_metadata_tags\s*=\s*"enabled"', HCL)
    bodies = found(r"\btags\s*=\s*(?:merge\()?\{([^}]*)\}", HCL)
    tags = [key for body in bodies for key in re.findall(r'"?([^\s"=,{]+)"?\s*=', body)]
    assert tags
    assert not shown or not [key for key in tags if not keys.match(key)]


def test_a_budget_filter_holds_the_tags_value_and_not_the_words_for_it() -> None:
    rule = TABLE["budget.tag_filter"].value
    filters = [body for _, body in blocks('resource "aws_budgets_budget"')]
    assert filters
    for body in filters:
        value = re.search(r'values\s*=\s*\["(.*)"\]', body)
        assert value, "no filter"
        assert value[1].startswith(rule["prefix"])
        assert "$${" not in value[1], 'Terraform takes "$${" for the text "${"'


def test_a_budget_counts_what_was_used_and_not_what_credits_left_of_it() -> None:
    for name, body in blocks('resource "aws_budgets_budget"'):
        for kind in TABLE["budget.credits"].value:
            assert re.search(rf"cost_types \{{[^}}]*{kind}\s*= false", body), f"{name}: {kind}"


def test_a_budget_action_is_one_that_needs_no_ids() -> None:
    for name, body in blocks('resource "aws_budgets_budget_action"'):
        kind = re.search(r'action_type\s*=\s*"(\w+)"', body)
        assert kind, name
        assert kind[1] in TABLE["budget.actions"].value
        assert kind[1] != "RUN_SSM_DOCUMENTS", "it takes ids, which nobody knows beforehand"
        assert "subscriber {" in body
        assert re.search(r'approval_model\s*=\s*"AUTOMATIC"', body)


def test_schedules_are_expressions_that_the_scheduler_takes() -> None:
    expression = re.compile(TABLE["scheduler.expression"].value)
    for name, body in blocks('resource "aws_scheduler_schedule"'):
        assert "flexible_time_window" in body, name
        given = re.search(r'schedule_expression\s*=\s*"([^"$]+)"', body)
        assert given is None or expression.match(given[1]), f"{name}: {given}"


def test_functions_have_a_runtime_of_today_and_a_time_limit_of_their_own() -> None:
    limit = TABLE["lambda.timeout_s"].value
    for name, body in blocks('resource "aws_lambda_function"'):
        runtime = re.search(r'runtime\s*=\s*"([\w.]+)"', body)
        timeout = re.search(r"timeout\s*=\s*(\d+)", body)
        assert runtime, name
        assert runtime[1] in TABLE["lambda.runtimes"].value
        assert timeout, f"{name} ends after {limit['default']} s"
        assert limit["default"] < int(timeout[1]) <= limit["most"]


def test_the_reaper_runs_in_every_region() -> None:
    places = TABLE["lambda.architectures"].value
    asked = found(r"architectures\s*=\s*\[([^\]]*)\]", HCL)
    assert set(asked) <= {f'"{places["everywhere"]}"'}


def test_a_customer_key_for_disks_names_auto_scaling() -> None:
    keys = list(blocks('resource "aws_kms_key"'))
    policies = "".join(body for _, body in blocks('data "aws_iam_policy_document"'))
    if keys and found(r"kms_key_id\s*=\s*var\.key_arn", HCL):
        assert TABLE["role.autoscaling"].value["name"] in policies


def test_whoever_launches_workers_may_use_a_customer_key_of_the_account() -> None:
    answers = TABLE["kms.default_answer"].value
    assert found(r'key_arn\] : key if startswith\(key, "([^"]+)"\)', HCL) == [answers["customer"]]
    assert not answers["own"].startswith(answers["customer"])
    assert set(found(r'"(kms:\w+)"', HCL)) == set(TABLE["kms.launcher"].value) | {
        TABLE["kms.autoscaling.grant"].value["condition"],
        "kms:ViaService",
    }


def test_own_parameters_do_not_begin_with_what_aws_reserves() -> None:
    reserved = tuple(TABLE["ssm.reserved_prefixes"].value)
    names = [name for body in (b for _, b in blocks('resource "aws_ssm_parameter"'))
             for name in re.findall(r'name\s*=\s*"/?([^"]+)"', body)]  # fmt: skip
    assert not [name for name in names if name.lower().startswith(reserved)]


@pytest.mark.parametrize(
    ("resource", "fact"),
    [
        ("aws_iam_role", "role.name_length"),
        ("aws_budgets_budget", "budget.name_length"),
        ("aws_scheduler_schedule", None),
    ],
)
def test_the_longest_name_of_a_stack_leaves_names_that_aws_takes(resource, fact) -> None:
    limit = TABLE[fact].value if fact else 64
    for name, body in blocks(f'resource "{resource}"'):
        given = re.search(r'^\s*name\s*=\s*"([^"]+)"', body, re.MULTILINE)
        if given:
            length = len(re.sub(r"\$\{[^}]*\}", "x" * LONGEST_NAME, given[1]))
            assert length <= limit, f"{name}: {given[1]} may have {length} characters"


def test_terraforms_own_lock_is_used_where_the_state_is_in_a_bucket() -> None:
    lock = TABLE["terraform.lock"].value
    home = stack_home.Home(account="123456789012", region="us-east-1")
    backend = home.backend("lab", emulated=False)["terraform"]["backend"]["s3"]
    assert backend[lock["argument"]] is True
    assert "dynamodb_table" not in backend
    [required] = set(found(r'required_version\s*=\s*">= ([\d.]+)"', [TERRAFORM / "versions.tf"]))
    assert tuple(map(int, required.split("."))) >= tuple(map(int, lock["least"].split(".")))


def test_the_lock_of_ubuntus_own_update_is_waited_for_as_long_as_that_of_its_upgrade() -> None:
    """Which has an option for it; the other fails at once."""
    scripts = sorted(TERRAFORM.glob("scripts/*.tftpl"))
    [(most, pause_s)] = found(r"\{1\.\.(\d+)\}; do apt-get update .*\|\| sleep (\d+)", scripts)
    waits = TABLE["apt.lock_timeout"].value
    [timeout_s] = found(rf"apt-get {waits['waits']} .*{waits['option']}=(\d+)", scripts)
    assert int(most) * int(pause_s) >= int(timeout_s)


def test_the_provider_is_of_a_version_that_the_table_has() -> None:
    [allowed] = found(r'(?m)^\s+version\s*=\s*"(>= [^"]+)"', [TERRAFORM / "versions.tf"])
    least, below = re.findall(r"\d+", allowed)[0], re.findall(r"< (\d+)", allowed)[0]
    majors = {str(major) for major in range(int(least), int(below))}
    assert majors <= set(TABLE["terraform.providers"].value)


def test_the_warning_of_spot_machines_is_read_where_and_as_often_as_aws_says() -> None:
    assert TABLE["spot.poll_s"].value >= spot_interruption.POLL_S
    assert TABLE["spot.notice_path"].value in Path(spot_interruption.__file__).read_text()


def test_refusals_of_launches_that_have_a_remedy_are_those_of_the_table() -> None:
    codes = {fact.value for name, fact in TABLE.items() if name.startswith("error.")
             and isinstance(fact.value, str)}  # fmt: skip
    assert LAUNCH_REMEDIES.keys() <= codes


def test_a_region_that_is_not_enabled_is_known_by_the_code_of_the_table() -> None:
    assert TABLE["error.region_disabled"].value in aws_stack._NOT_THERE


def test_codes_that_tests_let_aws_answer_come_from_the_table() -> None:
    """The emulator's faults are named once: in the table, through `failures`."""
    path = CHECKOUT / "tests/support/aws_emulator/failures.py"
    codes = {fact.value for name, fact in TABLE.items() if isinstance(fact.value, str)}
    texts = [node.value for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    assert not codes & set(texts)
