# What a plan promises, without AWS: guarded machines, closed doors, nothing that runs by itself.

mock_provider "aws" {
  mock_data "aws_ec2_instance_type_offerings" {
    defaults = { locations = ["us-east-1a", "us-east-1b", "us-east-1f"] }
  }

  mock_data "aws_ec2_instance_type" {
    defaults = {
      supported_architectures = ["x86_64"]
      default_vcpus           = 4
      gpus                    = []
      total_gpu_memory        = 0
    }
  }

  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-0123456789abcdef0" }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_availability_zones" {
    defaults = { names = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1f"] }
  }

  mock_data "aws_ami" {
    defaults = { root_device_name = "/dev/sda1", block_device_mappings = [] }
  }

  mock_data "aws_ebs_default_kms_key" {
    defaults = { key_arn = "alias/aws/ebs" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  fleet     = { "g5.xlarge" = 2, "r6i.large" = 3 }
  build_dir = "tests/made"
  ray_token = "0123456789abcdef0123456789abcdef"
}

run "every_machine_is_guarded" {
  command = plan

  module {
    source = "./modules/nodes"
  }

  variables {
    name                = "benchorch"
    instance_types      = ["g5.xlarge", "r6i.large"]
    head_type           = "m7i.large"
    security_group_id   = "sg-1"
    worker_profile_name = "worker"
    ttl_minutes         = 480
    packages            = { "cpu-x86_64" = "cpu-x86_64-0", "cuda-x86_64" = "cuda-x86_64-0" }
    offers              = { "g5.xlarge" = ["us-east-1a"], "r6i.large" = ["us-east-1a"] }
    common_script       = "role={role} hard={hard_minutes} packages={packages}{make_packages}"
    worker_script       = "type={instance_type}"
    cpu_self_test       = "cpu"
    gpu_self_test       = "gpu"
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : template.metadata_options[0].http_tokens == "required" && template.metadata_options[0].http_put_response_hop_limit == 1])
    error_message = "A worker's metadata can be read without a session token."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : template.block_device_mappings[0].ebs[0].encrypted == "true" && template.block_device_mappings[0].ebs[0].delete_on_termination == "true"])
    error_message = "A worker's disk is not encrypted, or outlives it."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : template.instance_initiated_shutdown_behavior == "terminate"])
    error_message = "A worker that shuts itself down goes on costing."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : length(template.network_interfaces) == 0 && length(template.instance_market_options) == 0])
    error_message = "With network interfaces Ray tries no other zone; with a market every launch is of that market."
  }

  assert {
    condition     = base64decode(aws_launch_template.worker["g5.xlarge"].user_data) == "role=worker hard=480 packages=cpu-x86_64-0\ntype=g5.xlarge"
    error_message = "The start script does not know its role, its end, its packages or its type."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : template.block_device_mappings[0].ebs[0].kms_key_id == null])
    error_message = "A key of one's own needs grants for spot and Auto Scaling; the account's default key needs none."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : toset([for spec in template.tag_specifications : spec.resource_type]) == toset(["instance", "volume", "network-interface"])])
    error_message = "Something that costs would not be counted as the stack's."
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.worker : length(template.monitoring) == 0])
    error_message = "Metrics of every minute cost, and nothing reads them."
  }
}

run "a_gpu_machine_runs_on_what_was_made_for_gpus" {
  command = plan

  module {
    source = "./modules/nodes"
  }

  override_data {
    target = data.aws_ec2_instance_type.each["g5.12xlarge"]
    values = { supported_architectures = ["x86_64"], default_vcpus = 48, gpus = [{ count = 4, manufacturer = "NVIDIA", memory_size = 24576, name = "A10G" }] }
  }

  override_data {
    target = data.aws_ec2_instance_type.each["g5g.xlarge"]
    values = { supported_architectures = ["arm64"], default_vcpus = 4, gpus = [{ count = 1, manufacturer = "NVIDIA", memory_size = 16384, name = "T4g" }] }
  }

  variables {
    name                = "benchorch"
    instance_types      = ["g5.12xlarge", "g5g.xlarge"]
    head_type           = "m7i.large"
    security_group_id   = "sg-1"
    worker_profile_name = "worker"
    ttl_minutes         = 480
    packages            = { "cpu-x86_64" = "cpu-x86_64-0", "cuda-x86_64" = "cuda-x86_64-0" }
    offers              = { "g5.12xlarge" = ["us-east-1a"], "g5g.xlarge" = [] }
    common_script       = "{packages} {self_test}"
    worker_script       = "slots={slots}"
    cpu_self_test       = "cpu"
    gpu_self_test       = "gpu"
  }

  assert {
    condition     = local.scripts["g5.12xlarge"] == "cuda-x86_64-0 gpu\nslots=4" && data.aws_ssm_parameter.image["gpu"].name == "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    error_message = "A GPU machine has the packages or the image of a machine without GPU."
  }

  # There are no packages for a GPU on Arm, and no zone has it.
  expect_failures = [aws_launch_template.worker["g5g.xlarge"]]
}

run "an_arm_machine_has_the_image_and_the_packages_for_arm" {
  command = plan

  module {
    source = "./modules/nodes"
  }

  override_data {
    target = data.aws_ec2_instance_type.each["c7g.large"]
    values = { supported_architectures = ["arm64"], default_vcpus = 2, gpus = [] }
  }

  variables {
    name                = "benchorch"
    instance_types      = ["c7g.large"]
    head_type           = "m7i.large"
    security_group_id   = "sg-1"
    worker_profile_name = "worker"
    ttl_minutes         = 480
    packages            = { "cpu-aarch64" = "cpu-aarch64-0", "cpu-x86_64" = "cpu-x86_64-0" }
    offers              = { "c7g.large" = ["us-east-1a"] }
    common_script       = "{packages}"
    worker_script       = "{instance_type}"
    cpu_self_test       = "cpu"
    gpu_self_test       = "gpu"
  }

  assert {
    condition     = local.scripts["c7g.large"] == "cpu-aarch64-0\nc7g.large" && contains([for parameter in data.aws_ssm_parameter.image : parameter.name], "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id")
    error_message = "An Arm machine has the packages or the image of another."
  }
}

run "a_part_of_a_gpu_or_another_makers_is_refused_and_not_paid_for_as_a_cpu" {
  command = plan

  module {
    source = "./modules/nodes"
  }

  # As EC2 describes them.
  override_data {
    target = data.aws_ec2_instance_type.each["g6f.xlarge"]
    values = { supported_architectures = ["x86_64"], total_gpu_memory = 2861, gpus = [{ count = 0, manufacturer = "NVIDIA", memory_size = 2861, name = "L4" }] }
  }

  override_data {
    target = data.aws_ec2_instance_type.each["g4ad.xlarge"]
    values = { supported_architectures = ["x86_64"], total_gpu_memory = 8192, gpus = [{ count = 1, manufacturer = "AMD", memory_size = 8192, name = "Radeon Pro V520" }] }
  }

  variables {
    name                = "benchorch"
    instance_types      = ["g4ad.xlarge", "g6f.xlarge", "trn2.48xlarge"]
    head_type           = "m7i.large"
    security_group_id   = "sg-1"
    worker_profile_name = "worker"
    ttl_minutes         = 480
    packages            = { "cpu-x86_64" = "cpu-x86_64-0", "cuda-x86_64" = "cuda-x86_64-0" }
    offers              = { "g4ad.xlarge" = ["us-east-1a"], "g6f.xlarge" = ["us-east-1a"], "trn2.48xlarge" = [] }
    common_script       = ""
    worker_script       = ""
    cpu_self_test       = "cpu"
    gpu_self_test       = "gpu"
  }

  assert {
    condition     = local.image_of["trn2.48xlarge"] == "neuron"
    error_message = "A Trainium machine has another image than Neuron's."
  }

  # The last one for its zones, of which there is none.
  expect_failures = [aws_launch_template.worker["g4ad.xlarge"], aws_launch_template.worker["g6f.xlarge"], aws_launch_template.worker["trn2.48xlarge"]]
}

run "nobody_comes_in" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    name   = "benchorch"
    region = "us-east-1"
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.nodes_among_themselves.cidr_ipv4 == null && aws_vpc_security_group_ingress_rule.nodes_among_themselves.cidr_ipv6 == null
    error_message = "Somebody outside the group may connect."
  }

  assert {
    condition     = { for zone, subnet in aws_subnet.nodes : zone => subnet.cidr_block } == { us-east-1a = "10.60.0.0/20", us-east-1b = "10.60.16.0/20", us-east-1c = "10.60.32.0/20", us-east-1f = "10.60.80.0/20" }
    error_message = "A subnet's addresses depend on something else than its zone, so that it could move."
  }
}

run "a_customers_key_as_the_accounts_default_is_one_that_the_head_may_use" {
  command = plan

  module {
    source = "./modules/access"
  }

  override_data {
    target = data.aws_ebs_default_kms_key.disks
    values = { key_arn = "arn:aws:kms:us-east-1:123456789012:key/0" }
  }

  variables {
    name              = "benchorch"
    region            = "us-east-1"
    bucket_arn        = "arn:aws:s3:::benchorch-123456789012"
    token_parameter   = "/benchorch/ray-token"
    address_parameter = "/benchorch/head-address"
    head_group        = "benchorch-head"
    instance_types    = ["r6i.large"]
    subnet_ids        = ["subnet-1"]
  }

  assert {
    condition     = toset(flatten([for statement in data.aws_iam_policy_document.head.statement : statement.actions if endswith(statement.sid, "TheAccountsKey")])) == toset(["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"])
    error_message = "Workers would end as they start: whoever launches them may not use the key of their disks."
  }
}

run "awss_own_key_needs_no_right" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    name              = "benchorch"
    region            = "us-east-1"
    bucket_arn        = "arn:aws:s3:::benchorch-123456789012"
    token_parameter   = "/benchorch/ray-token"
    address_parameter = "/benchorch/head-address"
    head_group        = "benchorch-head"
    instance_types    = ["r6i.large"]
    subnet_ids        = ["subnet-1"]
  }

  assert {
    condition     = !strcontains(jsonencode(data.aws_iam_policy_document.head.statement[*].actions), "kms:")
    error_message = "The head has a right that it does not need."
  }
}

run "the_bucket_is_closed" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    name      = "benchorch"
    build_dir = "tests/made"
  }

  assert {
    condition     = aws_s3_bucket.this.bucket == "benchorch-123456789012" && !aws_s3_bucket.this.force_destroy
    error_message = "The bucket has another name, or may be removed with its content."
  }

  assert {
    condition     = aws_s3_bucket_public_access_block.this.block_public_acls && aws_s3_bucket_public_access_block.this.block_public_policy && aws_s3_bucket_public_access_block.this.ignore_public_acls && aws_s3_bucket_public_access_block.this.restrict_public_buckets
    error_message = "The bucket could be made public."
  }
}

run "the_whole_stack_plans" {
  command = plan

  assert {
    condition     = tolist(local.offers["g5.xlarge"]) == tolist(["us-east-1a", "us-east-1b", "us-east-1f"])
    error_message = "The zones are not those that have the type."
  }

  assert {
    condition     = strcontains(local.common, "shutdown -h +{hard_minutes}") && strcontains(local.head_script, "shutdown -h +485") && strcontains(local.head_script, "node rest benchorch-head")
    error_message = "A machine has no hard end, or a head's end makes another head."
  }

  assert {
    condition     = strcontains(local.head_script, "--dashboard-host=127.0.0.1") && strcontains(local.common, "RAY_AUTH_MODE=token")
    error_message = "The dashboard is open, or Ray asks for no token."
  }

  assert {
    condition     = alltrue([for type in keys(var.fleet) : !strcontains(local.head_script, type)])
    error_message = "Adding a type changes the head's start, and so replaces a running head."
  }

  assert {
    condition     = strcontains(local.common, "BENCHORCH_STORE_URL=s3://benchorch-123456789012/store BENCHORCH_RESULTS_URL=s3://benchorch-123456789012/results\n") && output.store_url == "s3://benchorch-123456789012/store" && output.results_url == "s3://benchorch-123456789012/results"
    error_message = "The machines do not know the stack's bucket."
  }

  assert {
    condition     = strcontains(local.common, "systemctl mask apt-daily.service apt-daily-upgrade.service") && strcontains(local.common, "snap refresh --hold")
    error_message = "Ubuntu upgrades its packages beside a measurement."
  }

  assert {
    condition     = strcontains(local.work_script, "shutdown -h now")
    error_message = "Workers outlive the head."
  }

  assert {
    condition     = strcontains(local.common, "g++ python3-dev python3-venv") && !strcontains(local.common, "pip install -q benchorch") && strcontains(local.common, "--no-index --no-deps")
    error_message = "A node has no compiler, or asks an index for packages."
  }

  assert {
    condition     = length(setintersection(toset(keys(module.nodes.image_ids)), toset(["g5.xlarge", "r6i.large", "m7i.large"]))) == 3
    error_message = "A machine has no image."
  }
}

run "a_fleet_of_nothing_is_refused" {
  command = plan

  variables {
    fleet = {}
  }

  expect_failures = [var.fleet]
}

run "a_fleet_without_end_is_refused" {
  command = plan

  variables {
    fleet = { "g5.xlarge" = 1000 }
  }

  expect_failures = [var.fleet]
}

run "a_short_token_is_refused" {
  command = plan

  variables {
    ray_token = "guess-me"
  }

  expect_failures = [var.ray_token]
}

run "other_markets_are_refused" {
  command = plan

  variables {
    markets = ["reserved"]
  }

  expect_failures = [var.markets]
}

run "a_machine_without_end_is_refused" {
  command = plan

  variables {
    ttl_minutes = 100000
  }

  expect_failures = [var.ttl_minutes]
}

run "a_head_that_never_ends_is_refused" {
  command = plan

  variables {
    head_idle_minutes = 0
  }

  expect_failures = [var.head_idle_minutes]
}

run "a_fleet_of_more_types_than_a_policy_can_name_is_refused" {
  command = plan

  variables {
    fleet = { for number in range(101) : "r6i.${number}xlarge" => 1 }
  }

  expect_failures = [var.fleet]
}

run "a_region_of_another_partition_is_refused" {
  command = plan

  variables {
    region = "cn-north-1"
  }

  expect_failures = [var.region]
}
