# Ray: one head, which launches and ends workers by the cluster file made here.

locals {
  # Said outright: a provider's default tags reach no machine, and a template's may be overruled.
  tags = [for kind in ["instance", "volume", "network-interface"] : {
    ResourceType = kind
    Tags         = [{ Key = "benchorch:stack", Value = var.name }]
  }]
  # As the template has it: whether a condition of a policy sees what a template says, no page states.
  metadata = {
    HttpEndpoint            = "enabled"
    HttpTokens              = "required"
    HttpPutResponseHopLimit = 1
    InstanceMetadataTags    = "enabled"
  }
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
        # Trials side by side, one a GPU.
        { CPU = worker.vcpus, "benchorch:${worker.type}" = max(1, worker.accelerators) },
        worker.accelerators > 0 ? { GPU = worker.accelerators } : {},
      )
      labels = {
        "benchorch/instance-type" = worker.type
        "benchorch/arch"          = worker.architecture
        "benchorch/packages"      = worker.packages
        "ray.io/market-type"      = replace(worker.market, "_", "-")
      }
      node_config = merge(
        {
          InstanceType       = worker.type
          LaunchTemplate     = { LaunchTemplateId = worker.template_id, Version = tostring(worker.template_version) }
          IamInstanceProfile = { Arn = var.worker_profile_arn }
          SecurityGroupIds   = [var.security_group_id]
          SubnetIds          = worker.subnet_ids
          TagSpecifications  = local.tags
          MetadataOptions    = local.metadata
        },
        worker.market == "spot" ? { InstanceMarketOptions = local.spot } : {},
      )
    }
  }

  cluster_file = {
    cluster_name = var.name
    # Of a kind are launched at once as many as run, or one: with a large fleet that would take long.
    upscaling_speed      = 10
    max_workers          = sum([for facts in var.fleet : facts.max_workers])
    idle_timeout_minutes = var.idle_minutes
    provider = {
      type                  = "aws"
      region                = var.region
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
          SubnetIds          = var.head_subnet_ids
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

# Under the wheel's digest: a running head sees a type that was added, and never another's packages.
resource "aws_s3_object" "cluster_file" {
  for_each = { (var.cluster_key) = yamlencode(local.cluster_file) }

  bucket  = var.bucket
  key     = each.key
  content = each.value
}

resource "aws_launch_template" "head" {
  name          = "${var.name}-head"
  description   = "benchorch's head"
  image_id      = var.head_image_id
  instance_type = var.head_type

  instance_initiated_shutdown_behavior = "terminate"
  update_default_version               = true
  vpc_security_group_ids               = [var.security_group_id]
  user_data                            = base64encode(var.start_script)

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
    device_name = var.head_disk.name

    # Encrypted by the account's own key for disks, which Auto Scaling may use as it is.
    ebs {
      volume_size           = var.head_disk.gib
      volume_type           = "gp3"
      throughput            = 250 # it packs and unpacks the packages of every kind of node
      encrypted             = true
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.value
      tags          = { "benchorch:stack" = var.name }
    }
  }

  lifecycle {
    precondition {
      condition     = length(var.head_subnet_ids) > 0
      error_message = "${var.head_type}, the head's type, is offered in no zone of this region: set head_type."
    }

    precondition {
      condition     = length(base64encode(var.start_script)) <= 16384 * 4 / 3
      error_message = "The head's start script is longer than the 16 KiB that EC2 takes."
    }
  }
}

# A group of at most one: AWS replaces a head that dies, and the journal says where to go on. Its time
# being up, a head empties the group before it goes; so does the reaper.
resource "aws_autoscaling_group" "head" {
  name                      = var.head_group
  min_size                  = 0
  max_size                  = 1
  desired_capacity          = var.running ? 1 : 0
  vpc_zone_identifier       = var.head_subnet_ids
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
      "benchorch:stack"  = var.name
    }

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  depends_on = [aws_s3_object.cluster_file] # a head that starts finds it
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
