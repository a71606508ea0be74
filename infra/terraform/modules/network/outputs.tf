output "vpc_id" {
  description = "The network."
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "Private subnets, one a zone, in the order of the zones."
  value       = [for zone in var.zones : aws_subnet.private[zone].id]
}

output "security_group_id" {
  description = "The group of head and workers."
  value       = aws_security_group.nodes.id
}
