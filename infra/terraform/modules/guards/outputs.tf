output "topic_arn" {
  description = "Where alarms are published."
  value       = aws_sns_topic.alarms.arn
}

output "spent_topic_arn" {
  description = "Where the budget says that it is spent."
  value       = aws_sns_topic.spent.arn
}
