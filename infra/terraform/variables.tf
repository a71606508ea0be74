variable "name" {
  description = "Name of the stack and of Ray's cluster; prefix of every name in AWS."
  type        = string
  default     = "benchorch"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,30}$", var.name))
    error_message = "name must be 3 to 31 characters: lower case letters, digits and hyphens, a letter first."
  }
}

variable "region" {
  description = "AWS region."
  type        = string
  default     = "us-east-1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be a region's name, e.g. us-east-1."
  }

  validation {
    condition     = !can(regex("^(cn|us-gov|us-iso[a-z]*|eu-isoe|eusc)-", var.region))
    error_message = "The stack is not written for regions of China, of governments and of the European sovereign cloud, whose addresses and accounts are others."
  }
}

variable "fleet" {
  description = "How many workers of each instance type there may be at most, e.g. { \"g5.xlarge\" = 2 }."
  type        = map(number)
  default     = { "g5.xlarge" = 1, "r6i.large" = 2 }
  nullable    = false

  validation {
    condition     = length(var.fleet) > 0 && alltrue([for type, most in var.fleet : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", type))])
    error_message = "fleet must name at least one instance type, e.g. { \"g5.xlarge\" = 1 }."
  }

  validation {
    condition     = alltrue([for most in values(var.fleet) : most >= 1 && most <= 100 && floor(most) == most])
    error_message = "fleet must give every type a whole number of workers from 1 to 100."
  }

  validation {
    condition     = length(var.fleet) <= 100
    error_message = "fleet must name at most 100 types: the head's policy names each, and IAM takes 10,240 characters of it."
  }
}

variable "markets" {
  description = "Markets in which workers may be launched: spot, on_demand or both."
  type        = list(string)
  default     = ["spot", "on_demand"]
  nullable    = false

  validation {
    condition     = length(var.markets) > 0 && alltrue([for market in var.markets : contains(["spot", "on_demand"], market)])
    error_message = "markets must hold spot, on_demand or both."
  }
}

variable "head_type" {
  description = "Instance type of the head, which schedules and measures nothing."
  type        = string
  default     = "m7i.large"
  nullable    = false
}

variable "running" {
  description = "Whether there is a head. Without one nothing is launched, and all that is kept stays."
  type        = bool
  default     = true
  nullable    = false
}

variable "night_stop" {
  description = "When the head is ended every night, as a cron expression in UTC; null for never."
  type        = string
  default     = "0 3 * * *"
}

variable "idle_minutes" {
  description = "Minutes after which an idle worker is ended."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.idle_minutes >= 1 && var.idle_minutes <= 60
    error_message = "idle_minutes must be from 1 to 60."
  }
}

variable "head_idle_minutes" {
  description = "Minutes after which a head that nobody uses ends itself: no sweep, no session, no packages to make."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.head_idle_minutes >= 1 && floor(var.head_idle_minutes) == var.head_idle_minutes
    error_message = "head_idle_minutes must be a whole number from 1; ttl_minutes ends the head in any case."
  }
}

variable "ttl_minutes" {
  description = "Minutes after which every machine ends itself, the head included, whatever happens."
  type        = number
  default     = 480
  nullable    = false

  validation {
    condition     = var.ttl_minutes >= 10 && var.ttl_minutes <= 2880
    error_message = "ttl_minutes must be from 10 to 2880."
  }
}

variable "monthly_budget_usd" {
  description = "Dollars a month at which every machine is ended and none is launched any more."
  type        = number
  default     = 200
  nullable    = false
}

variable "email" {
  description = "Who is told of budget and alarms; null for nobody."
  type        = string
  default     = null
}

variable "cidr_block" {
  description = "Addresses of the network."
  type        = string
  default     = "10.60.0.0/16"
  nullable    = false
}

variable "disk_gib" {
  description = "Size of a worker's disk in GiB, or its image's if that is larger."
  type        = number
  default     = 100
  nullable    = false
}

variable "build_dir" {
  description = "Directory with the wheel, the locks of infra/locks and reaper.zip; make provision makes it."
  type        = string
  nullable    = false
}

variable "baked_images" {
  description = "Images with all packages, by kind of node; make image makes them and remembers them here."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "force_destroy" {
  description = "Whether destroying the stack may remove a bucket that still holds something."
  type        = bool
  default     = false
  nullable    = false
}

variable "ray_token" {
  description = "Ray's token. It never enters the state; it is stored when its version rises, and ignored otherwise."
  type        = string
  nullable    = false
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = length(var.ray_token) >= 32
    error_message = "ray_token must have at least 32 characters; make provision makes one."
  }
}

variable "ray_token_version" {
  description = "Raise it to store another token."
  type        = number
  default     = 1
  nullable    = false
}

variable "image_parameters" {
  description = "Public parameters that name the images; null for the usual ones."
  type        = map(string)
  default     = null
}

variable "endpoint_checks" {
  description = "Whether AWS itself answers; false against an emulator."
  type        = bool
  default     = true
  nullable    = false
}
