# An MLflow server for those who have none: private, behind a password, its database on a disk.

resource "aws_instance" "this" {
  ami                    = var.image_id
  instance_type          = var.instance_type
  subnet_id              = var.subnet_id
  vpc_security_group_ids = [var.security_group_id]
  iam_instance_profile   = var.profile_name
  user_data              = var.start_script
  ebs_optimized          = true
  monitoring             = true

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_type = "gp3"
    volume_size = 50
    encrypted   = true
    kms_key_id  = var.key_arn
  }

  tags = { Name = "${var.name}-mlflow" }

  lifecycle {
    ignore_changes = [ami] # a newer image is no reason to lose the database
  }
}
