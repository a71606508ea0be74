variable "name" {
  description = "Prefix of every name, and the name of Ray's cluster."
  type        = string
  nullable    = false
}

variable "bucket_arn" {
  description = "The bucket of artifacts and results."
  type        = string
  nullable    = false
}

variable "region" {
  description = "AWS region."
  type        = string
  nullable    = false
}

variable "head_group" {
  description = "Name of the group that holds the head."
  type        = string
  nullable    = false
}

variable "token_parameter" {
  description = "Name of the parameter that holds Ray's token."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.token_parameter, "/")
    error_message = "token_parameter must be a full parameter name, beginning with a slash."
  }
}

variable "address_parameter" {
  description = "Name of the parameter in which the head announces its address."
  type        = string
  nullable    = false
}

variable "instance_types" {
  description = "The only types the head may launch."
  type        = list(string)
  nullable    = false
}

variable "subnet_ids" {
  description = "The only subnets the head may launch into."
  type        = list(string)
  nullable    = false
}
