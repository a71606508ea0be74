variable "name" {
  description = "Prefix of every name."
  type        = string
  nullable    = false
}

variable "region" {
  description = "AWS region."
  type        = string
  nullable    = false
}

variable "cidr_block" {
  description = "Addresses of the network; each zone gets a sixteenth of it."
  type        = string
  default     = "10.60.0.0/16"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.cidr_block)) && tonumber(split("/", var.cidr_block)[1]) <= 20
    error_message = "cidr_block must be an IPv4 network of /20 or larger, e.g. 10.60.0.0/16."
  }
}
