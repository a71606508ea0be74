output "cluster_file" {
  description = "Ray's cluster file."
  value       = yamlencode(local.cluster_file)
}
