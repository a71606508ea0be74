variable "email" {
  description = "Who is told of budget and alarms; null for nobody."
  type        = string
  default     = null
}

variable "ray_token" {
  description = "Ray's token, e.g. from: openssl rand -hex 32. It never enters the state."
  type        = string
  nullable    = false
  sensitive   = true
  ephemeral   = true
}

variable "build_dir" {
  description = "Directory with the wheel, the locks of infra/locks and reaper.zip; make provision makes it."
  type        = string
  nullable    = false
}
