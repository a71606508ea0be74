variable "name" {
  description = "Prefix of every name; also the tag value by which costs are counted."
  type        = string
  nullable    = false
}

variable "email" {
  description = "Who is told; null for nobody."
  type        = string
  default     = null

  validation {
    condition     = var.email == null || can(regex("^[^@ ]+@[^@ ]+\\.[^@ ]+$", var.email))
    error_message = "email must be an address, or null."
  }
}

variable "monthly_budget_usd" {
  description = "Dollars a month at which everything is ended."
  type        = number
  nullable    = false

  validation {
    condition     = var.monthly_budget_usd > 0
    error_message = "monthly_budget_usd must be above 0."
  }
}

variable "head_role_name" {
  description = "Role from which the right to launch is taken when the budget is spent."
  type        = string
  nullable    = false
}

variable "head_group_name" {
  description = "The group whose head is watched."
  type        = string
  nullable    = false
}

variable "no_more_arn" {
  description = "Policy that takes that right."
  type        = string
  nullable    = false
}
