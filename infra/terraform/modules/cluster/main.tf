# Ray: one head, which launches and ends workers by the cluster file made here.

data "aws_region" "here" {}

locals {
  spot = { MarketType = "spot", SpotOptions = { InstanceInterruptionBehavior = "terminate" } }

  # One Ray type for each instance type and market: Ray alone never falls back from one to another.
  workers = merge([
    for type, facts in var.fleet : {
      for market in var.markets : "${type}-${replace(market, "_", "-")}" => merge(facts, { type = type, market = market })
    }
  ]...)

  node_types = {
    for name, worker in local.workers : name => {
      min_workers = 0
      max_workers = worker.max_workers
      resources = merge(
        { CPU = worker.vcpus, "benchorch:${worker.type}" = 1 },
        worker.accelerators > 0 ? { GPU = worker.accelerators } : {},
      )
      labels = {
        "benchorch/instance-type" = worker.type
        "benchorch/arch"          = worker.architecture
        "ray.io/market-type"      = replace(worker.market, "_", "-")
      }
      node_config = merge(
        {
          InstanceType       = worker.type
          LaunchTemplate     = { LaunchTemplateId = worker.template_id, Version = "$Latest" }
          IamInstanceProfile = { Arn = var.worker_profile_arn }
          SecurityGroupIds   = [var.security_group_id]
          SubnetIds          = var.subnet_ids
        },
        worker.market == "spot" ? { InstanceMarketOptions = local.spot } : {},
      )
    }
  }

  cluster_file = {
    cluster_name         = var.name
    max_workers          = sum([for facts in var.fleet : facts.max_workers])
    idle_timeout_minutes = var.idle_minutes
    provider = {
      type                  = "aws"
      region                = data.aws_region.here.name
      cache_stopped_nodes   = false # a stopped machine's disk still costs
      use_internal_ips      = true
      disable_node_updaters = true # start scripts start Ray; nobody comes by SSH
    }
    auth           = { ssh_user = "ubuntu" }
    head_node_type = "head"
    available_node_types = merge(local.node_types, {
      head = {
        min_workers = 0
        max_workers = 0
        resources   = { CPU = 0 } # nothing is measured beside the scheduler
        node_config = {
          InstanceType       = var.head_type
          IamInstanceProfile = { Name = var.head_profile_name }
          SecurityGroupIds   = [var.security_group_id]
          SubnetIds          = var.subnet_ids
        }
      }
    })
    # Given empty, lest Ray's own defaults run: they install a nightly build and open the dashboard.
    setup_commands            = []
    head_setup_commands       = []
    worker_setup_commands     = []
    initialization_commands   = []
    head_start_ray_commands   = []
    worker_start_ray_commands = []
  }
}

resource "aws_launch_template" "head" {
  name          = "${var.name}-head"
  description   = "benchorch's head"
  image_id      = var.head_image_id
  instance_type = var.head_type

  instance_initiated_shutdown_behavior = "terminate"
  update_default_version               = true
  vpc_security_group_ids               = [var.security_group_id]
  user_data                            = base64encode(replace(var.start_script, "{cluster_file}", base64gzip(yamlencode(local.cluster_file))))

  iam_instance_profile {
    name = var.head_profile_name
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "enabled"
  }

  block_device_mappings {
    device_name = "/dev/sda1"

    ebs {
      volume_size           = 50
      volume_type           = "gp3"
      encrypted             = true
      kms_key_id            = var.key_arn
      delete_on_termination = true
    }
  }

  monitoring {
    enabled = true
  }
}

# A group of at most one: AWS replaces a head that dies, and the journal says where to go on.
resource "aws_autoscaling_group" "head" {
  name                      = "${var.name}-head"
  min_size                  = 0
  max_size                  = 1
  desired_capacity          = var.running ? 1 : 0
  vpc_zone_identifier       = var.subnet_ids
  health_check_grace_period = 300
  wait_for_capacity_timeout = "0"

  launch_template {
    id      = aws_launch_template.head.id
    version = aws_launch_template.head.latest_version
  }

  dynamic "tag" {
    for_each = {
      Name               = "ray-${var.name}-head"
      ray-cluster-name   = var.name
      ray-node-type      = "head"
      ray-user-node-type = "head"
      ray-node-name      = "ray-${var.name}-head"
    }

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }
}

resource "aws_autoscaling_schedule" "night" {
  count = var.night_stop == null ? 0 : 1

  scheduled_action_name  = "${var.name}-night"
  autoscaling_group_name = aws_autoscaling_group.head.name
  recurrence             = var.night_stop
  min_size               = 0
  max_size               = 1
  desired_capacity       = 0
}
