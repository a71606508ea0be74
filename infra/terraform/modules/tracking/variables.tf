variable "name" {
  description = "Prefix of every name."
  type        = string
  nullable    = false
}

variable "instance_type" {
  description = "Instance type of the MLflow server."
  type        = string
  default     = "t3.medium"
  nullable    = false
}

variable "image_id" {
  description = "Image of the server."
  type        = string
  nullable    = false
}

variable "subnet_id" {
  description = "Private subnet of the server."
  type        = string
  nullable    = false
}

variable "security_group_id" {
  description = "The nodes' group: they alone reach it."
  type        = string
  nullable    = false
}

variable "profile_name" {
  description = "Instance profile: it keeps its files in the bucket."
  type        = string
  nullable    = false
}

variable "key_arn" {
  description = "KMS key of its disk."
  type        = string
  nullable    = false
}

variable "start_script" {
  description = "Start script of the server."
  type        = string
  nullable    = false
}
