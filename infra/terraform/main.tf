# Everything that outlives a sweep. Workers are Ray's: it launches and ends them by the cluster file.

provider "aws" {
  region                      = var.region
  max_retries                 = var.endpoint_checks ? 10 : 1
  s3_use_path_style           = !var.endpoint_checks
  skip_credentials_validation = !var.endpoint_checks
  skip_metadata_api_check     = !var.endpoint_checks

  default_tags {
    tags = { "benchorch:stack" = var.name }
  }
}

data "aws_ec2_instance_type_offerings" "each" {
  for_each = toset(local.types)

  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [each.value]
  }
}

locals {
  types = sort(keys(var.fleet))

  # Zones by how many of the fleet's types they have, the fullest first, then by name.
  offers = flatten([for offers in data.aws_ec2_instance_type_offerings.each : offers.locations])
  ranked = sort([for zone in distinct(local.offers) : format("%04d %s", 1000 - length([for offer in local.offers : offer if offer == zone]), zone)])
  zones  = sort([for entry in slice(local.ranked, 0, min(var.most_zones, length(local.ranked))) : split(" ", entry)[1]])

  store_url          = "s3://${module.storage.bucket}/store"
  token_parameter    = "/${var.name}/ray-token"
  address_parameter  = "/${var.name}/head-address"
  password_parameter = "/${var.name}/mlflow-password"

  node_words = {
    region            = var.region
    bucket            = module.storage.bucket
    store_url         = local.store_url
    package           = var.package
    ttl_minutes       = var.ttl_minutes
    token_parameter   = local.token_parameter
    address_parameter = local.address_parameter
  }
  common      = templatefile("${path.module}/scripts/common.sh.tftpl", local.node_words)
  head_script = join("\n", [local.common, templatefile("${path.module}/scripts/head.sh.tftpl", local.node_words)])
  work_script = join("\n", [local.common, templatefile("${path.module}/scripts/worker.sh.tftpl", local.node_words)])
}

module "network" {
  source = "./modules/network"

  name       = var.name
  cidr_block = var.cidr_block
  zones      = local.zones
}

module "keys" {
  source = "./modules/keys"

  name = var.name
}

module "storage" {
  source = "./modules/storage"

  name          = var.name
  key_arn       = module.keys.key_arn
  force_destroy = var.force_destroy
}

module "access" {
  source = "./modules/access"

  name              = var.name
  bucket_arn        = module.storage.bucket_arn
  key_arn           = module.keys.key_arn
  token_parameter   = local.token_parameter
  address_parameter = local.address_parameter
  instance_types    = local.types
  subnet_ids        = module.network.subnet_ids
}

module "nodes" {
  source = "./modules/nodes"

  name                = var.name
  instance_types      = local.types
  head_type           = var.head_type
  security_group_id   = module.network.security_group_id
  worker_profile_name = module.access.worker_profile_name
  key_arn             = module.keys.key_arn
  disk_gib            = var.disk_gib
  image_parameters    = var.image_parameters
  user_data           = local.work_script
}

module "cluster" {
  source = "./modules/cluster"

  name               = var.name
  head_type          = var.head_type
  head_image_id      = module.nodes.image_ids[var.head_type]
  head_profile_name  = module.access.head_profile_name
  worker_profile_arn = module.access.worker_profile_arn
  security_group_id  = module.network.security_group_id
  subnet_ids         = module.network.subnet_ids
  key_arn            = module.keys.key_arn
  markets            = var.markets
  idle_minutes       = var.idle_minutes
  start_script       = local.head_script
  running            = var.running
  night_stop         = var.night_stop

  fleet = {
    for type in local.types : type => {
      max_workers  = var.fleet[type]
      template_id  = module.nodes.template_ids[type]
      vcpus        = module.nodes.vcpus[type]
      accelerators = module.nodes.accelerators[type]
      architecture = module.nodes.architectures[type]
    }
  }
}

module "guards" {
  source = "./modules/guards"

  name               = var.name
  email              = var.email
  monthly_budget_usd = var.monthly_budget_usd
  key_arn            = module.keys.key_arn
  head_group_name    = module.cluster.head_group_name
}

module "tracking" {
  source = "./modules/tracking"
  count  = var.tracking_server ? 1 : 0

  name              = var.name
  image_id          = module.nodes.image_ids[var.head_type]
  subnet_id         = module.network.subnet_ids[0]
  security_group_id = module.network.security_group_id
  profile_name      = module.access.worker_profile_name
  key_arn           = module.keys.key_arn
  start_script = templatefile("${path.module}/scripts/mlflow.sh.tftpl", {
    region             = var.region
    bucket             = module.storage.bucket
    password_parameter = local.password_parameter
  })
}

# Write-only: the token reaches AWS and no state file, plan or log.
resource "aws_ssm_parameter" "ray_token" {
  name             = local.token_parameter
  description      = "Whoever knows it may run code on the cluster"
  type             = "SecureString"
  key_id           = module.keys.key_arn
  value_wo         = var.ray_token
  value_wo_version = var.ray_token_version
}

resource "aws_ssm_parameter" "mlflow_password" {
  count = var.tracking_server ? 1 : 0

  name             = local.password_parameter
  description      = "Of MLflow's administrator"
  type             = "SecureString"
  key_id           = module.keys.key_arn
  value_wo         = var.mlflow_password
  value_wo_version = var.ray_token_version
}
