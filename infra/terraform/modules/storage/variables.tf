variable "name" {
  description = "Prefix of every name; the bucket's ends with the account's number."
  type        = string
  nullable    = false
}

variable "build_dir" {
  description = "Directory with the wheel and the locks, by the kind of node: cpu-x86_64.txt and so on."
  type        = string
  nullable    = false
}

variable "store_days" {
  description = "Days after which a built artifact that nobody replaced is removed."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = var.store_days >= 1
    error_message = "store_days must be at least 1."
  }
}

variable "force_destroy" {
  description = "Whether destroying the stack may remove a bucket that still holds something."
  type        = bool
  default     = false
  nullable    = false
}
