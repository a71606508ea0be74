# Packages, built artifacts, results, what starts said: one bucket, a prefix each.

data "aws_caller_identity" "me" {}

resource "aws_s3_bucket" "this" {
  bucket        = "${var.name}-${data.aws_caller_identity.me.account_id}"
  force_destroy = var.force_destroy
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256" # S3's own key: free, and nobody's grant is needed
    }
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket = aws_s3_bucket.this.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }

    noncurrent_version_expiration {
      noncurrent_days = 7
    }
  }

  rule {
    id     = "old-starts"
    status = "Enabled"

    filter {
      prefix = "starts/"
    }

    expiration {
      days = 7
    }
  }

  rule {
    id     = "old-artifacts"
    status = "Enabled"

    filter {
      prefix = "store/"
    }

    expiration {
      days = var.store_days
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "OnlyEncryptedInTransit"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

# Whoever waits for the bucket itself waits for its rules, too.
resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = data.aws_iam_policy_document.bucket.json

  depends_on = [aws_s3_bucket_public_access_block.this]
}

locals {
  wheel   = one(fileset(var.build_dir, "*.whl"))
  digests = { for name in fileset(var.build_dir, "*") : name => filesha256("${var.build_dir}/${name}") }
  locks   = { for name, digest in local.digests : trimsuffix(name, ".txt") => digest if endswith(name, ".txt") }
}

# The wheel of the checkout that provisioned, and the locks, under their digests, in the state too:
# make provision has Terraform forget another checkout's, which a running head and its workers fetch.
resource "aws_s3_object" "wheel" {
  for_each = toset([local.digests[local.wheel]])

  bucket      = aws_s3_bucket.this.id
  key         = "packages/${each.key}/${local.wheel}"
  source      = "${var.build_dir}/${local.wheel}"
  source_hash = each.key

  depends_on = [aws_s3_bucket_policy.this]
}

resource "aws_s3_object" "lock" {
  for_each = { for kind, digest in local.locks : "${kind}-${substr(digest, 0, 12)}" => kind }

  bucket      = aws_s3_bucket.this.id
  key         = "packages/${each.key}/lock.txt"
  source      = "${var.build_dir}/${each.value}.txt"
  source_hash = local.locks[each.value]

  depends_on = [aws_s3_bucket_policy.this]
}
