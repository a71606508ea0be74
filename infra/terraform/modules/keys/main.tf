# One key for everything at rest: artifacts, disks, the token.

data "aws_caller_identity" "me" {}

data "aws_partition" "here" {}

data "aws_iam_policy_document" "key" {
  # The account decides by IAM who may use the key; without this statement nobody could any more.
  statement {
    sid       = "AccountDecides"
    actions   = ["kms:*"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = ["arn:${data.aws_partition.here.partition}:iam::${data.aws_caller_identity.me.account_id}:root"]
    }
  }

  # Alarms travel through a topic that this key encrypts.
  statement {
    sid       = "AlarmsMayBeSent"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = ["*"]

    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com", "events.amazonaws.com", "budgets.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.me.account_id]
    }
  }
}

resource "aws_kms_key" "this" {
  description             = "${var.name}: artifacts, disks and the cluster's token"
  enable_key_rotation     = true
  deletion_window_in_days = 7
  policy                  = data.aws_iam_policy_document.key.json
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}
