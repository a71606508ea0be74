variable "name" {
  description = "Name of the stack."
  type        = string
  nullable    = false
}

variable "region" {
  description = "AWS region."
  type        = string
  nullable    = false
}

variable "program" {
  description = "Path of the function's ZIP file."
  type        = string
  nullable    = false
}

variable "ttl_minutes" {
  description = "Minutes after which every machine is ended."
  type        = number
  nullable    = false
}

variable "head_group_name" {
  description = "The group that holds the head."
  type        = string
  nullable    = false
}

variable "profile_arns" {
  description = "Instance profiles of the stack's machines; no other machine is ended."
  type        = list(string)
  nullable    = false
}

variable "topic_arn" {
  description = "Where is said what was ended."
  type        = string
  nullable    = false
}

variable "spent_topic_arn" {
  description = "Where the budget says that it is spent."
  type        = string
  nullable    = false
}
