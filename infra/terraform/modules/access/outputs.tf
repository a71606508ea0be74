output "head_profile_name" {
  description = "Instance profile of the head."
  value       = aws_iam_instance_profile.head.name
}

output "worker_profile_name" {
  description = "Instance profile of the workers."
  value       = aws_iam_instance_profile.worker.name
}

output "worker_profile_arn" {
  description = "The same, as Ray's cluster file wants it."
  value       = aws_iam_instance_profile.worker.arn
}

output "head_role_name" {
  description = "Role of the head."
  value       = aws_iam_role.head.name
}

output "no_more_arn" {
  description = "Policy that takes from the head the right to launch."
  value       = aws_iam_policy.no_more.arn
}

output "profile_arns" {
  description = "Instance profiles of the stack's machines."
  value       = [aws_iam_instance_profile.head.arn, aws_iam_instance_profile.worker.arn]
}

output "policies" {
  description = "What each role is granted, as JSON: for tests of least privilege."
  value = {
    head   = data.aws_iam_policy_document.head.json
    node   = data.aws_iam_policy_document.node.json
    worker = data.aws_iam_policy_document.node.json
  }
}
