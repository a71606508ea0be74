output "policy" {
  description = "What the reaper is granted, as JSON."
  value       = data.aws_iam_policy_document.reaper.json
}
