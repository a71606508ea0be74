# Where the machines live: a public subnet in every zone, and no way in but from each other.

data "aws_availability_zones" "here" {
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"] # no Local Zones
  }
}

locals {
  # A zone's part of the network follows from its letter alone: whatever else changes, none moves.
  letters = split("", "abcdefghijklmnop")
  zones   = { for zone in data.aws_availability_zones.here.names : zone => index(local.letters, substr(zone, -1, 1)) }
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr_block
  enable_dns_hostnames = true
  enable_dns_support   = true

  tags = { Name = var.name }
}

# The default group would let its members talk to each other and to everybody: emptied.
resource "aws_default_security_group" "empty" {
  vpc_id = aws_vpc.this.id

  tags = { Name = "${var.name}-default-unused" }
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id

  tags = { Name = var.name }
}

# Public addresses cost half a cent an hour while a machine runs; a NAT gateway costs 33 dollars a
# month while none does, and lets in exactly as much: nothing.
resource "aws_subnet" "nodes" {
  for_each = local.zones

  map_public_ip_on_launch = true

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.cidr_block, 4, each.value)

  tags = { Name = "${var.name}-${each.key}" }
}

resource "aws_route_table" "nodes" {
  vpc_id = aws_vpc.this.id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }

  tags = { Name = var.name }
}

resource "aws_route_table_association" "nodes" {
  for_each = aws_subnet.nodes

  subnet_id      = each.value.id
  route_table_id = aws_route_table.nodes.id
}

# Free, and artifacts stay inside of AWS.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.nodes.id]

  tags = { Name = "${var.name}-s3" }
}

resource "aws_security_group" "nodes" {
  name        = "${var.name}-nodes"
  description = "Ray's head and workers: each other, and out"
  vpc_id      = aws_vpc.this.id

  tags = { Name = "${var.name}-nodes" }
}

resource "aws_vpc_security_group_ingress_rule" "nodes_among_themselves" {
  security_group_id            = aws_security_group.nodes.id
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
  description                  = "Ray between its own nodes"
}

resource "aws_vpc_security_group_egress_rule" "nodes_among_themselves" {
  security_group_id            = aws_security_group.nodes.id
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
  description                  = "Ray between its own nodes"
}

resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.nodes.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  description       = "AWS, and packages"
}

resource "aws_vpc_security_group_egress_rule" "http" {
  security_group_id = aws_security_group.nodes.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 80
  to_port           = 80
  description       = "Signed packages of the distribution, which come by plain HTTP"
}
