output "cluster_file" {
  description = "Ray's cluster file."
  value       = yamlencode(local.cluster_file)
}

output "head_group_name" {
  description = "The group that holds the head."
  value       = aws_autoscaling_group.head.name
}

output "head_group_arn" {
  description = "The same, as policies name it."
  value       = aws_autoscaling_group.head.arn
}
