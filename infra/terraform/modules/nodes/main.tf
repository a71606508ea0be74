# A launch template for each type of machine: image, encrypted disk, guarded metadata, start script.
# No market here: the same type is launched as spot and as on demand, which is Ray's part.

data "aws_ec2_instance_type" "each" {
  for_each = toset(concat(var.instance_types, [var.head_type]))

  instance_type = each.value
}

locals {
  # Whole ones of NVIDIA's, which the GPU image has the driver of: a fraction of one counts as none.
  gpus = {
    for type, facts in data.aws_ec2_instance_type.each : type =>
    sum(concat([0], [for gpu in coalesce(facts.gpus, []) : gpu.count if gpu.manufacturer == "NVIDIA"]))
  }
  architectures = {
    for type, facts in data.aws_ec2_instance_type.each : type =>
    contains(facts.supported_architectures, "arm64") ? "aarch64" : "x86_64"
  }
  image_of = {
    for type, architecture in local.architectures : type => (
      can(regex("^(inf|trn)[0-9]", type)) ? "neuron" :
      local.gpus[type] > 0 ? "gpu" :
      architecture == "aarch64" ? "arm64" : architecture # as parameters of images spell it
    )
  }

  # Which packages a machine runs on: the kinds of infra/locks.
  kinds = {
    for type, architecture in local.architectures : type =>
    local.gpus[type] > 0 ? "cuda-${architecture}" : "cpu-${architecture}"
  }
  image_kinds = { for type, image in local.image_of : type => image == "neuron" ? "neuron" : local.kinds[type] }
  images = {
    for type, image in local.image_of : type =>
    lookup(var.baked_images, local.image_kinds[type], nonsensitive(data.aws_ssm_parameter.image[image].value))
  }

  scripts = {
    for type, kind in local.kinds : type => join("\n", [
      replace(replace(replace(replace(replace(var.common_script,
        "{role}", "worker"),
        "{hard_minutes}", tostring(var.ttl_minutes)),
        "{packages}", lookup(var.packages, kind, "none")),
        "{make_packages}", ""),
      "{self_test}", startswith(kind, "cuda") ? var.gpu_self_test : var.cpu_self_test),
      replace(replace(var.worker_script, "{instance_type}", type), "{slots}", tostring(max(1, local.gpus[type]))),
    ])
  }
}

data "aws_ssm_parameter" "image" {
  for_each = toset(values(local.image_of))

  name = var.image_parameters[each.value]
}

# The image knows its own disk: what it is called, and how small it may be.
data "aws_ami" "each" {
  for_each = toset(values(local.images))

  filter {
    name   = "image-id"
    values = [each.value]
  }
}

locals {
  disks = {
    for type, id in local.images : type => {
      name = data.aws_ami.each[id].root_device_name
      gib = max(concat([type == var.head_type ? 60 : var.disk_gib], [
        for disk in data.aws_ami.each[id].block_device_mappings : tonumber(try(disk.ebs["volume_size"], 0))
        if disk.device_name == data.aws_ami.each[id].root_device_name
      ])...)
    }
  }
}

resource "aws_launch_template" "worker" {
  for_each = toset(var.instance_types)

  name          = "${var.name}-${replace(each.value, ".", "-")}"
  description   = "A benchorch worker on ${each.value}"
  image_id      = local.images[each.value]
  instance_type = each.value
  ebs_optimized = true

  # Shutting down from inside ends the bill.
  instance_initiated_shutdown_behavior = "terminate"
  update_default_version               = true

  # Never network_interfaces: Ray would no longer be able to try other zones.
  vpc_security_group_ids = [var.security_group_id]
  user_data              = base64encode(local.scripts[each.value])

  iam_instance_profile {
    name = var.worker_profile_name
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "enabled"
  }

  block_device_mappings {
    device_name = local.disks[each.value].name

    # Encrypted by the account's own key for disks, which Auto Scaling and spot may use as it is.
    ebs {
      volume_size           = local.disks[each.value].gib
      volume_type           = "gp3"
      throughput            = 500 # unpacking a GPU's packages is what a start waits for
      encrypted             = true
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.value
      tags          = { "benchorch:stack" = var.name, "benchorch:instance-type" = each.value }
    }
  }

  lifecycle {
    precondition {
      condition     = local.gpus[each.value] > 0 || coalesce(data.aws_ec2_instance_type.each[each.value].total_gpu_memory, 0) == 0
      error_message = "${each.value} has no whole NVIDIA GPU, only a fraction of one or another maker's, whose drivers no image of the stack has: name another type."
    }

    precondition {
      condition     = contains(keys(var.packages), local.kinds[each.value])
      error_message = "${each.value} would need packages for ${local.kinds[each.value]}; infra/locks has ${join(", ", keys(var.packages))}."
    }

    precondition {
      condition     = !startswith(local.kinds[each.value], "cuda") || local.architectures[var.head_type] == "x86_64"
      error_message = "The packages of ${each.value} are made on the head, which must be an x86-64 machine for that: set head_type, e.g. m7i.large."
    }

    precondition {
      condition     = length(lookup(var.offers, each.value, [])) > 0
      error_message = "${each.value} is offered in no zone of this region: name another type or another region."
    }

    precondition {
      condition     = length(base64encode(local.scripts[each.value])) <= 16384 * 4 / 3
      error_message = "The start script is longer than the 16 KiB that EC2 takes."
    }
  }
}
