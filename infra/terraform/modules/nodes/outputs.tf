output "template_ids" {
  description = "Launch template by instance type."
  value       = { for type, template in aws_launch_template.worker : type => template.id }
}

output "image_ids" {
  description = "Image by instance type: recorded with results, and fixed for a sweep."
  value       = { for type, kind in local.image_of : type => nonsensitive(data.aws_ssm_parameter.image[kind].value) }
}

output "accelerators" {
  description = "Number of GPUs by instance type."
  value       = { for type, facts in data.aws_ec2_instance_type.each : type => sum(concat([0], [for gpu in coalesce(facts.gpus, []) : gpu.count])) }
}

output "architectures" {
  description = "Architecture by instance type, as Python spells it."
  value = {
    for type, facts in data.aws_ec2_instance_type.each : type =>
    contains(facts.supported_architectures, "arm64") ? "aarch64" : "x86_64"
  }
}

output "vcpus" {
  description = "Virtual CPUs by instance type."
  value       = { for type, facts in data.aws_ec2_instance_type.each : type => facts.default_vcpus }
}
