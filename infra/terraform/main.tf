# Everything that outlives a sweep. Workers are Ray's: it launches and ends them by the cluster file.

provider "aws" {
  region                      = var.region
  max_retries                 = var.endpoint_checks ? 10 : 5
  s3_use_path_style           = !var.endpoint_checks
  skip_credentials_validation = !var.endpoint_checks
  skip_metadata_api_check     = !var.endpoint_checks

  default_tags {
    tags = { "benchorch:stack" = var.name }
  }
}

data "aws_ec2_instance_type_offerings" "each" {
  for_each = toset(concat(local.types, [var.head_type]))

  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [each.value]
  }
}

locals {
  types = sort(keys(var.fleet))

  offers = {
    for type, found in data.aws_ec2_instance_type_offerings.each : type =>
    [for zone in found.locations : zone if contains(keys(module.network.subnet_ids), zone)]
  }
  subnets = { for type, zones in local.offers : type => [for zone in sort(zones) : module.network.subnet_ids[zone]] }

  head_group        = "${var.name}-head"
  cluster_key       = "config/${substr(module.storage.wheel_digest, 0, 12)}/cluster.yaml"
  store_url         = "s3://${module.storage.bucket}/store"
  results_url       = "s3://${module.storage.bucket}/results"
  starts_url        = "s3://${module.storage.bucket}/starts"
  token_parameter   = "/${var.name}/ray-token"
  address_parameter = "/${var.name}/head-address"
  head_packages     = lookup(module.storage.packages, module.nodes.kinds[var.head_type], "none")
  head_hard_minutes = var.ttl_minutes + 5 # its own end comes first and empties the group
  cpu_self_test     = "\"$python\" -c 'import ray, benchorch'"
  gpu_self_test     = "\"$python\" -c 'import ray, benchorch, torch; torch.ones(1).cuda()'"

  node_words = {
    region            = var.region
    bucket            = module.storage.bucket
    store_url         = local.store_url
    results_url       = local.results_url
    starts_url        = local.starts_url
    wheel             = module.storage.wheel
    wheel_digest      = module.storage.wheel_digest
    node_program      = base64gzip(file("${path.module}/scripts/node.py"))
    head_group        = local.head_group
    ttl_minutes       = var.ttl_minutes
    head_idle_minutes = var.head_idle_minutes
    cluster_key       = local.cluster_key
    token_parameter   = local.token_parameter
    address_parameter = local.address_parameter
  }
  common      = templatefile("${path.module}/scripts/common.sh.tftpl", local.node_words)
  work_script = templatefile("${path.module}/scripts/worker.sh.tftpl", local.node_words)

  # The head of the first day makes the packages; it is the only one that asks an index.
  make_packages = <<-EOT
    base64 -d <<'PROGRAM' | gunzip > "$home/make_packages.sh"
    ${base64gzip(file("${path.module}/scripts/make_packages.sh"))}
    PROGRAM
  EOT
  head_script = join("\n", [
    replace(replace(replace(replace(replace(local.common,
      "{role}", "head"),
      "{hard_minutes}", tostring(local.head_hard_minutes)),
      "{packages}", local.head_packages),
      "{make_packages}", local.make_packages),
    "{self_test}", local.cpu_self_test),
    templatefile("${path.module}/scripts/head.sh.tftpl", local.node_words),
  ])
}

module "network" {
  source = "./modules/network"

  name       = var.name
  region     = var.region
  cidr_block = var.cidr_block
}

module "storage" {
  source = "./modules/storage"

  name          = var.name
  build_dir     = var.build_dir
  force_destroy = var.force_destroy
}

module "access" {
  source = "./modules/access"

  name              = var.name
  region            = var.region
  bucket_arn        = module.storage.bucket_arn
  token_parameter   = local.token_parameter
  address_parameter = local.address_parameter
  head_group        = local.head_group
  instance_types    = local.types
  subnet_ids        = values(module.network.subnet_ids)
}

module "nodes" {
  source = "./modules/nodes"

  name                = var.name
  instance_types      = local.types
  head_type           = var.head_type
  security_group_id   = module.network.security_group_id
  worker_profile_name = module.access.worker_profile_name
  disk_gib            = var.disk_gib
  ttl_minutes         = var.ttl_minutes
  image_parameters    = var.image_parameters
  baked_images        = var.baked_images
  packages            = module.storage.packages
  offers              = local.offers
  common_script       = local.common
  worker_script       = local.work_script
  cpu_self_test       = local.cpu_self_test
  gpu_self_test       = local.gpu_self_test
}

module "cluster" {
  source = "./modules/cluster"

  name               = var.name
  region             = var.region
  bucket             = module.storage.bucket
  cluster_key        = local.cluster_key
  head_type          = var.head_type
  head_image_id      = module.nodes.image_ids[var.head_type]
  head_disk          = module.nodes.disks[var.head_type]
  head_group         = local.head_group
  head_profile_name  = module.access.head_profile_name
  head_subnet_ids    = local.subnets[var.head_type]
  worker_profile_arn = module.access.worker_profile_arn
  security_group_id  = module.network.security_group_id
  markets            = var.markets
  idle_minutes       = var.idle_minutes
  start_script       = local.head_script
  running            = var.running
  night_stop         = var.night_stop

  fleet = {
    for type in local.types : type => {
      max_workers      = var.fleet[type]
      template_id      = module.nodes.templates[type].id
      template_version = module.nodes.templates[type].version
      subnet_ids       = local.subnets[type]
      vcpus            = module.nodes.vcpus[type]
      accelerators     = module.nodes.accelerators[type]
      architecture     = module.nodes.architectures[type]
      packages         = lookup(module.storage.packages, module.nodes.kinds[type], "none")
    }
  }

  # What ends a head, and what it is allowed, is there before it, and goes after it.
  depends_on = [module.access, module.guards, module.reaper]
}

module "guards" {
  source = "./modules/guards"

  name               = var.name
  email              = var.email
  monthly_budget_usd = var.monthly_budget_usd
  head_role_name     = module.access.head_role_name
  no_more_arn        = module.access.no_more_arn
  head_group_name    = local.head_group
}

module "reaper" {
  source = "./modules/reaper"

  name            = var.name
  region          = var.region
  program         = "${var.build_dir}/reaper.zip"
  ttl_minutes     = var.ttl_minutes
  head_group_name = local.head_group
  profile_arns    = module.access.profile_arns
  topic_arn       = module.guards.topic_arn
  spent_topic_arn = module.guards.spent_topic_arn
}

# Write-only: the token reaches AWS and no state file, plan or log. The account's own key encrypts it.
resource "aws_ssm_parameter" "ray_token" {
  name             = local.token_parameter
  description      = "Whoever knows it may run code on the cluster"
  type             = "SecureString"
  value_wo         = var.ray_token
  value_wo_version = var.ray_token_version
}

# The head writes its address here; it is Terraform's, so that it goes with the stack.
resource "aws_ssm_parameter" "head_address" {
  name        = local.address_parameter
  description = "Address of the head in the stack's network"
  type        = "String"
  value       = "none"

  lifecycle {
    ignore_changes = [value]
  }
}
