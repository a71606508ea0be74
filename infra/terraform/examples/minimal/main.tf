# One GPU worker and one CPU worker at most, no head until somebody wants one.

module "benchorch" {
  source = "../.."

  name               = "benchorch-minimal"
  fleet              = { "g5.xlarge" = 1, "r6i.large" = 1 }
  running            = false
  monthly_budget_usd = 50
  email              = var.email
  build_dir          = var.build_dir
  ray_token          = var.ray_token
}
