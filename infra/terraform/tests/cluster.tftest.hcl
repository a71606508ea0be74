# What Ray is told: every type from zero, marked for placement, and nothing of its own defaults.

mock_provider "aws" {}

variables {
  name               = "benchorch"
  head_type          = "m7i.large"
  head_group         = "benchorch-head"
  head_image_id      = "ami-0123456789abcdef0"
  head_profile_name  = "head"
  worker_profile_arn = "arn:aws:iam::123456789012:instance-profile/worker"
  security_group_id  = "sg-1"
  head_subnet_ids    = ["subnet-1", "subnet-2"]
  head_disk          = { name = "/dev/sda1", gib = 60 }
  region             = "us-east-1"
  bucket             = "benchorch-123456789012"
  cluster_key        = "config/0/cluster.yaml"
  markets            = ["spot", "on_demand"]
  idle_minutes       = 5
  start_script       = "start"
  running            = true

  fleet = {
    "g5.12xlarge" = { max_workers = 2, template_id = "lt-1", template_version = 3, subnet_ids = ["subnet-2"], vcpus = 48, accelerators = 4, architecture = "x86_64", packages = "cuda-x86_64-0" }
    "r6g.large"   = { max_workers = 3, template_id = "lt-2", template_version = 1, subnet_ids = ["subnet-1", "subnet-2"], vcpus = 2, accelerators = 0, architecture = "aarch64", packages = "cpu-aarch64-0" }
  }
}

run "the_cluster_file" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  assert {
    condition     = toset(keys(local.node_types)) == toset(["g5.12xlarge-spot", "g5.12xlarge-on-demand", "r6g.large-spot", "r6g.large-on-demand"])
    error_message = "There is not one type for each machine and market."
  }

  assert {
    condition     = alltrue([for type in local.node_types : type.min_workers == 0])
    error_message = "A worker runs that nobody needs."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["g5.12xlarge-spot"].node_config.InstanceMarketOptions.MarketType == "spot" && !can(yamldecode(output.cluster_file).available_node_types["g5.12xlarge-on-demand"].node_config.InstanceMarketOptions)
    error_message = "The market is not the type's own."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["g5.12xlarge-spot"].resources == { CPU = 48, GPU = 4, "benchorch:g5.12xlarge" = 4 }
    error_message = "A node does not measure a trial on each of its GPUs."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["r6g.large-spot"].labels["benchorch/arch"] == "aarch64"
    error_message = "Nodes are not marked with their architecture."
  }

  assert {
    condition     = yamldecode(output.cluster_file).provider.cache_stopped_nodes == false && yamldecode(output.cluster_file).provider.disable_node_updaters
    error_message = "Stopped machines would be kept, or Ray would come by SSH."
  }

  assert {
    condition     = alltrue([for commands in ["setup_commands", "head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"] : length(yamldecode(output.cluster_file)[commands]) == 0])
    error_message = "Ray's own default commands would run."
  }

  assert {
    condition     = alltrue([for name, type in local.node_types : length([for spec in type.node_config.TagSpecifications : spec if spec.Tags == [{ Key = "benchorch:stack", Value = "benchorch" }]]) == 3])
    error_message = "An instance, its disk or its interface would not be counted as the stack's."
  }

  assert {
    condition     = contains([for tag in aws_autoscaling_group.head.tag : tag.key if tag.propagate_at_launch], "benchorch:stack") && length(aws_launch_template.head.tag_specifications) == 3
    error_message = "The head, its disk or its interface would not be counted as the stack's."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["g5.12xlarge-spot"].node_config.SubnetIds == ["subnet-2"] && yamldecode(output.cluster_file).available_node_types["g5.12xlarge-spot"].node_config.LaunchTemplate.Version == "3"
    error_message = "A type would be tried in a zone that lacks it, or a running head would launch nodes of another checkout."
  }

  assert {
    condition     = yamldecode(output.cluster_file).upscaling_speed >= 10
    error_message = "A large fleet would be launched machine after machine."
  }

  assert {
    condition     = aws_launch_template.head.block_device_mappings[0].ebs[0].kms_key_id == null
    error_message = "Auto Scaling has no access to a key of one's own: the head would end as it starts."
  }

  assert {
    condition     = aws_autoscaling_group.head.max_size == 1 && aws_autoscaling_group.head.min_size == 0
    error_message = "There could be two heads."
  }
}

run "no_head_when_not_running" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  variables {
    running = false
  }

  assert {
    condition     = aws_autoscaling_group.head.desired_capacity == 0
    error_message = "The head runs although nobody wants it."
  }
}
