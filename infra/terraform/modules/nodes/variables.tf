variable "name" {
  description = "Prefix of every name."
  type        = string
  nullable    = false
}

variable "instance_types" {
  description = "A launch template is made for each."
  type        = list(string)
  nullable    = false
}

variable "head_type" {
  description = "Instance type of the head."
  type        = string
  nullable    = false
}

variable "security_group_id" {
  description = "The nodes' group."
  type        = string
  nullable    = false
}

variable "worker_profile_name" {
  description = "Instance profile of the workers."
  type        = string
  nullable    = false
}

variable "key_arn" {
  description = "KMS key of the disks."
  type        = string
  nullable    = false
}

variable "disk_gib" {
  description = "Size of a node's disk."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.disk_gib >= 30 && var.disk_gib <= 16000
    error_message = "disk_gib must be between 30 and 16000."
  }
}

variable "image_parameters" {
  description = "Public parameters that name the newest image: of CPU machines by architecture, of GPU and Neuron machines."
  type        = map(string)
  default = {
    x86_64 = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
    arm64  = "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id"
    gpu    = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-ubuntu-22.04/latest/ami-id"
    neuron = "/aws/service/neuron/dlami/multi-framework/ubuntu-22.04/latest/image_id"
  }
  nullable = false

  validation {
    condition     = length(setsubtract(["x86_64", "arm64", "gpu", "neuron"], keys(var.image_parameters))) == 0
    error_message = "image_parameters must name x86_64, arm64, gpu and neuron."
  }
}

variable "user_data" {
  description = "Start script of a worker; {instance_type} in it stands for the type."
  type        = string
  nullable    = false
}
