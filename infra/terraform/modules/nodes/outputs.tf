output "templates" {
  description = "Launch template and its version by instance type."
  value       = { for type, template in aws_launch_template.worker : type => { id = template.id, version = template.latest_version } }
}

output "image_ids" {
  description = "Image by instance type; every result names its own."
  value       = local.images
}

output "image_kinds" {
  description = "By instance type, under which name a baked image is known."
  value       = local.image_kinds
}

output "disks" {
  description = "Name and size of the first disk by instance type."
  value       = local.disks
}

output "kinds" {
  description = "By instance type, which packages it runs on."
  value       = local.kinds
}

output "accelerators" {
  description = "Number of GPUs by instance type."
  value       = local.gpus
}

output "architectures" {
  description = "Architecture by instance type, as Python spells it."
  value       = local.architectures
}

output "vcpus" {
  description = "Virtual CPUs by instance type."
  value       = { for type, facts in data.aws_ec2_instance_type.each : type => facts.default_vcpus }
}
