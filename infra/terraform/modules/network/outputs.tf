output "vpc_id" {
  description = "The network."
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "Subnets by zone."
  value       = { for zone, subnet in aws_subnet.nodes : zone => subnet.id }
}

output "security_group_id" {
  description = "The group of head and workers."
  value       = aws_security_group.nodes.id
}
