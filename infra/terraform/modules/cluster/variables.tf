variable "name" {
  description = "Name of Ray's cluster, and prefix of every name."
  type        = string
  nullable    = false
}

variable "head_type" {
  description = "Instance type of the head."
  type        = string
  nullable    = false
}

variable "head_group" {
  description = "Name of the group that holds the head."
  type        = string
  nullable    = false
}

variable "head_image_id" {
  description = "Image of the head."
  type        = string
  nullable    = false
}

variable "head_profile_name" {
  description = "Instance profile of the head."
  type        = string
  nullable    = false
}

variable "worker_profile_arn" {
  description = "Instance profile of the workers."
  type        = string
  nullable    = false
}

variable "security_group_id" {
  description = "The nodes' group."
  type        = string
  nullable    = false
}

variable "head_subnet_ids" {
  description = "Subnets of the zones that have the head's type."
  type        = list(string)
  nullable    = false
}

variable "head_disk" {
  description = "Name and size of the head's disk."
  type        = object({ name = string, gib = number })
  nullable    = false
}

variable "bucket" {
  description = "The stack's bucket."
  type        = string
  nullable    = false
}

variable "cluster_key" {
  description = "Where in it Ray's cluster file is kept."
  type        = string
  nullable    = false
}

variable "region" {
  description = "AWS region."
  type        = string
  nullable    = false
}

variable "fleet" {
  description = "By instance type: how many workers at most, their template, subnets, virtual CPUs, GPUs, architecture, packages."
  type = map(object({
    max_workers      = number
    template_id      = string
    template_version = number
    subnet_ids       = list(string)
    vcpus            = number
    accelerators     = number
    architecture     = string
    packages         = string
  }))
  nullable = false
}

variable "markets" {
  description = "Markets in which each type may be launched."
  type        = list(string)
  nullable    = false
}

variable "idle_minutes" {
  description = "Minutes after which an idle worker is ended."
  type        = number
  nullable    = false
}

variable "start_script" {
  description = "Start script of the head."
  type        = string
  nullable    = false
}

variable "running" {
  description = "Whether there is a head now."
  type        = bool
  nullable    = false
}

variable "night_stop" {
  description = "When the head is ended every night, as a cron expression in UTC; null for never."
  type        = string
  default     = null
}
