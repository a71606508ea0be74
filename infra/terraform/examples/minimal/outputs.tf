output "next" {
  description = "The next commands to try."
  value       = module.benchorch.next
}
