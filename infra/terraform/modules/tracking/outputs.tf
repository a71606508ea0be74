output "uri" {
  description = "Where the nodes reach it."
  value       = "http://${aws_instance.this.private_ip}:5000"
}
