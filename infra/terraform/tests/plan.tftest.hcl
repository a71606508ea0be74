# What a plan promises, without AWS: guarded machines, closed doors, nothing that runs by itself.

mock_provider "aws" {
  mock_data "aws_ec2_instance_type_offerings" {
    defaults = { locations = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"] }
  }

  mock_data "aws_ec2_instance_type" {
    defaults = {
      supported_architectures = ["x86_64"]
      default_vcpus           = 4
      gpus                    = []
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

  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  fleet     = { "g5.xlarge" = 2, "r6i.large" = 3 }
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
    key_arn             = "arn:aws:kms:us-east-1:123456789012:key/1"
    user_data           = "type={instance_type}"
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
    condition     = base64decode(aws_launch_template.worker["g5.xlarge"].user_data) == "type=g5.xlarge"
    error_message = "The start script does not know its type."
  }
}

run "nobody_comes_in" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    name  = "benchorch"
    zones = ["us-east-1a", "us-east-1b"]
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.nodes_among_themselves.cidr_ipv4 == null && aws_vpc_security_group_ingress_rule.nodes_among_themselves.cidr_ipv6 == null
    error_message = "Somebody outside the group may connect."
  }

  assert {
    condition     = alltrue([for subnet in aws_subnet.private : subnet.map_public_ip_on_launch == false]) && length(aws_subnet.private) == 2
    error_message = "Machines would get public addresses."
  }
}

run "the_bucket_is_closed" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    name    = "benchorch"
    key_arn = "arn:aws:kms:us-east-1:123456789012:key/1"
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
    condition     = local.zones == tolist(["us-east-1a", "us-east-1b", "us-east-1c"])
    error_message = "The zones are not the first three of those that have the types."
  }

  assert {
    condition     = strcontains(local.work_script, "shutdown -h +480") && strcontains(local.head_script, "shutdown -h +480")
    error_message = "A machine has no hard end."
  }

  assert {
    condition     = strcontains(local.head_script, "--dashboard-host=127.0.0.1") && strcontains(local.common, "RAY_AUTH_MODE=token")
    error_message = "The dashboard is open, or Ray asks for no token."
  }

  assert {
    condition     = strcontains(local.common, "BENCHORCH_STORE_URL=s3://benchorch-123456789012/store\n") && output.store_url == "s3://benchorch-123456789012/store"
    error_message = "The machines do not know the stack's bucket."
  }

  assert {
    condition     = strcontains(local.work_script, "shutdown -h now")
    error_message = "Workers outlive the head."
  }

  assert {
    condition     = length(module.tracking) == 0
    error_message = "An MLflow server is made that nobody asked for."
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
