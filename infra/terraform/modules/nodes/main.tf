# A launch template for each type of machine: image, encrypted disk, guarded metadata, start script.
# No market here: the same type is launched as spot and as on demand, which is Ray's part.

data "aws_ec2_instance_type" "each" {
  for_each = toset(concat(var.instance_types, [var.head_type]))

  instance_type = each.value
}

locals {
  neuron = ["inf1", "inf2", "trn1", "trn1n", "trn2"]
  image_of = {
    for type, facts in data.aws_ec2_instance_type.each : type => (
      contains(local.neuron, split(".", type)[0]) ? "neuron" :
      length(coalesce(facts.gpus, [])) > 0 ? "gpu" :
      contains(facts.supported_architectures, "arm64") ? "arm64" : "x86_64"
    )
  }
}

data "aws_ssm_parameter" "image" {
  for_each = toset(values(local.image_of))

  name = var.image_parameters[each.value]
}

resource "aws_launch_template" "worker" {
  for_each = toset(var.instance_types)

  name          = "${var.name}-${replace(each.value, ".", "-")}"
  description   = "A benchorch worker on ${each.value}"
  image_id      = nonsensitive(data.aws_ssm_parameter.image[local.image_of[each.value]].value)
  instance_type = each.value
  ebs_optimized = true

  # Shutting down from inside ends the bill.
  instance_initiated_shutdown_behavior = "terminate"
  update_default_version               = true

  # Never network_interfaces: Ray would no longer be able to try other zones.
  vpc_security_group_ids = [var.security_group_id]
  user_data              = base64encode(replace(var.user_data, "{instance_type}", each.value))

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
    device_name = "/dev/sda1"

    ebs {
      volume_size           = var.disk_gib
      volume_type           = "gp3"
      encrypted             = true
      kms_key_id            = var.key_arn
      delete_on_termination = true
    }
  }

  monitoring {
    enabled = true
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { "benchorch:instance-type" = each.value }
  }
}
