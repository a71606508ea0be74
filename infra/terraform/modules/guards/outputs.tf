output "topic_arn" {
  description = "Where alarms are published."
  value       = aws_sns_topic.alarms.arn
}
