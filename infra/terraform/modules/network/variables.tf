variable "name" {
  description = "Prefix of every name."
  type        = string
  nullable    = false
}

variable "cidr_block" {
  description = "Addresses of the network; each zone gets a private and a public part of it."
  type        = string
  default     = "10.60.0.0/16"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.cidr_block)) && tonumber(split("/", var.cidr_block)[1]) <= 20
    error_message = "cidr_block must be an IPv4 network of /20 or larger, e.g. 10.60.0.0/16."
  }
}

variable "zones" {
  description = "Availability zones to spread over; a machine that one lacks may be had in another."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.zones) >= 1 && length(var.zones) <= 6
    error_message = "zones must name one to six availability zones."
  }
}
