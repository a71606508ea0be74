# What Ray is told: every type from zero, marked for placement, and nothing of its own defaults.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }
}

variables {
  name               = "benchorch"
  head_type          = "m7i.large"
  head_image_id      = "ami-0123456789abcdef0"
  head_profile_name  = "head"
  worker_profile_arn = "arn:aws:iam::123456789012:instance-profile/worker"
  security_group_id  = "sg-1"
  subnet_ids         = ["subnet-1", "subnet-2"]
  key_arn            = "arn:aws:kms:us-east-1:123456789012:key/1"
  markets            = ["spot", "on_demand"]
  idle_minutes       = 5
  start_script       = "{cluster_file}"
  running            = true

  fleet = {
    "g5.xlarge" = { max_workers = 2, template_id = "lt-1", vcpus = 4, accelerators = 1, architecture = "x86_64" }
    "r6g.large" = { max_workers = 3, template_id = "lt-2", vcpus = 2, accelerators = 0, architecture = "aarch64" }
  }
}

run "the_cluster_file" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  assert {
    condition     = toset(keys(local.node_types)) == toset(["g5.xlarge-spot", "g5.xlarge-on-demand", "r6g.large-spot", "r6g.large-on-demand"])
    error_message = "There is not one type for each machine and market."
  }

  assert {
    condition     = alltrue([for type in local.node_types : type.min_workers == 0])
    error_message = "A worker runs that nobody needs."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["g5.xlarge-spot"].node_config.InstanceMarketOptions.MarketType == "spot" && !can(yamldecode(output.cluster_file).available_node_types["g5.xlarge-on-demand"].node_config.InstanceMarketOptions)
    error_message = "The market is not the type's own."
  }

  assert {
    condition     = yamldecode(output.cluster_file).available_node_types["g5.xlarge-spot"].resources == { CPU = 4, GPU = 1, "benchorch:g5.xlarge" = 1 }
    error_message = "A trial could not ask for a whole node of its type."
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
