variable "name" {
  description = "Prefix of every name."
  type        = string
  nullable    = false
}
