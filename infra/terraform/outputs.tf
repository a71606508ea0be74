output "name" {
  description = "Name of the stack and of Ray's cluster."
  value       = var.name
}

output "bucket" {
  description = "Where artifacts and results are kept."
  value       = module.storage.bucket
}

output "store_url" {
  description = "Where artifacts are kept; the stack's machines have it in BENCHORCH_STORE_URL."
  value       = local.store_url
}

output "results_url" {
  description = "Where runs are copied as they grow; the stack's machines have it in BENCHORCH_RESULTS_URL."
  value       = local.results_url
}

output "bakes" {
  description = "By kind of image, a type whose launch template make image uses, and its packages and image now."
  value = {
    for type in local.types : module.nodes.image_kinds[type] => {
      type     = type
      template = module.nodes.templates[type].id
      subnets  = local.subnets[type]
      packages = lookup(module.storage.packages, module.nodes.kinds[type], "none")
    }...
  }
}

output "cluster_file" {
  description = "Ray's cluster file, as the head has it."
  value       = module.cluster.cluster_file
}

output "image_ids" {
  description = "The image of each instance type; every result names its own."
  value       = module.nodes.image_ids
}

output "policies" {
  description = "What each role is granted, as JSON."
  value       = merge(module.access.policies, { reaper = module.reaper.policy })
}

output "next" {
  description = "The next commands to try."
  value       = <<-EOT
    make status                                   which machines run now
    python -m benchorch plan model=bert -m hardware=${join(",", local.types)}
                                                  minutes and dollars, from here; without "plan" it runs
    make destroy                                  ends every machine, then removes everything
  EOT
}
