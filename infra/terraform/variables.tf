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

variable "ttl_minutes" {
  description = "Minutes after which every machine ends itself, whatever happens."
  type        = number
  default     = 480
  nullable    = false

  validation {
    condition     = var.ttl_minutes >= 10 && var.ttl_minutes <= 2880
    error_message = "ttl_minutes must be from 10 to 2880."
  }
}

variable "monthly_budget_usd" {
  description = "Dollars a month beyond which somebody is told."
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

variable "most_zones" {
  description = "Availability zones to spread over at most, those first that have the most of the fleet's types."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = var.most_zones >= 1 && var.most_zones <= 6
    error_message = "most_zones must be from 1 to 6."
  }
}

variable "disk_gib" {
  description = "Size of a worker's disk."
  type        = number
  default     = 100
  nullable    = false
}

variable "package" {
  description = "What pip installs on every node: a requirement, or s3:// and the name of a wheel in the bucket's wheels/."
  type        = string
  default     = "benchorch"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._\\[\\],=<>~!-]+$", var.package)) || can(regex("^s3://[A-Za-z0-9._-]+\\.whl$", var.package))
    error_message = "package must be a pip requirement without spaces, or s3:// and the name of a wheel."
  }
}

variable "tracking_server" {
  description = "Whether to make an MLflow server; without it results stay on the head and in the bucket."
  type        = bool
  default     = false
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

variable "mlflow_password" {
  description = "Password of MLflow's administrator, for tracking_server. Never in the state; stored when the token is."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = !var.tracking_server || try(length(var.mlflow_password) >= 16, false)
    error_message = "tracking_server needs an mlflow_password of at least 16 characters; make provision makes one."
  }
}

variable "ray_token_version" {
  description = "Raise it to store another token and password."
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
