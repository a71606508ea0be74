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
    gpu    = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    neuron = "/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id"
  }
  nullable = false

  validation {
    condition     = length(setsubtract(["x86_64", "arm64", "gpu", "neuron"], keys(var.image_parameters))) == 0
    error_message = "image_parameters must name x86_64, arm64, gpu and neuron."
  }
}

variable "baked_images" {
  description = "Images that make image has made, by kind of node; they win over the public ones."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "packages" {
  description = "By kind of node, the folder of its packages in the bucket."
  type        = map(string)
  nullable    = false
}

variable "offers" {
  description = "By instance type, the zones that have it."
  type        = map(list(string))
  nullable    = false
}

variable "ttl_minutes" {
  description = "Minutes after which a machine ends itself."
  type        = number
  nullable    = false
}

variable "common_script" {
  description = "Start of every node; {role}, {hard_minutes}, {packages}, {make_packages} and {self_test} are filled in here."
  type        = string
  nullable    = false
}

variable "worker_script" {
  description = "What follows on a worker; {instance_type} in it stands for the type, {slots} for how many trials it measures side by side."
  type        = string
  nullable    = false
}

variable "cpu_self_test" {
  description = "Commands that fail on a machine whose packages do not work."
  type        = string
  nullable    = false
}

variable "gpu_self_test" {
  description = "The same for a machine with GPUs."
  type        = string
  nullable    = false
}
