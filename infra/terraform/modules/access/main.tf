# Who may do what: workers keep artifacts, the head launches and ends workers, nobody does more.

data "aws_caller_identity" "me" {}

data "aws_partition" "here" {}

# What encrypts disks where nothing else is said: AWS's own key, by its alias, or a customer's, by its
# ARN. Whoever launches a machine needs rights to a customer's key himself.
data "aws_ebs_default_kms_key" "disks" {}

locals {
  disk_keys = [for key in [data.aws_ebs_default_kms_key.disks.key_arn] : key if startswith(key, "arn:")]
  account   = data.aws_caller_identity.me.account_id
  partition = data.aws_partition.here.partition
  ec2       = "arn:${local.partition}:ec2:${var.region}:${local.account}"
  parameter = "arn:${local.partition}:ssm:${var.region}:${local.account}:parameter"
}

data "aws_iam_policy_document" "machines" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

# What head and workers have in common.
data "aws_iam_policy_document" "node" {
  statement {
    sid       = "KeepArtifacts"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["${var.bucket_arn}/store/*"]
  }

  # Large files of a trial, below a name that no other attempt has.
  statement {
    sid       = "AddFilesOfTrials"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/results/*/attempts/*"]
  }

  statement {
    sid       = "InstallPackages"
    actions   = ["s3:GetObject"]
    resources = ["${var.bucket_arn}/packages/*"]
  }

  statement {
    sid       = "SayHowTheStartWent"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/starts/*"]
  }

  # A manifest names its files by their digests, so it is enough that no manifest is replaced.
  statement {
    sid       = "AddArtifactsAndReplaceNone"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/store/artifacts/*/manifest.json", "${var.bucket_arn}/results/*/attempts/*"]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["true"]
    }
  }

  statement {
    sid       = "RemoveLeases"
    actions   = ["s3:DeleteObject"]
    resources = ["${var.bucket_arn}/store/leases/*"]
  }

  statement {
    sid       = "LookForArtifacts"
    actions   = ["s3:ListBucket"]
    resources = [var.bucket_arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["store/*", "packages/*"]
    }
  }

  # What a builder that died had begun to upload; this call knows no prefix.
  statement {
    sid       = "LookForUnfinishedUploads"
    actions   = ["s3:ListBucketMultipartUploads"]
    resources = [var.bucket_arn]
  }

  statement {
    sid       = "KnowTheTokenAndTheHead"
    actions   = ["ssm:GetParameter"]
    resources = ["${local.parameter}${var.token_parameter}", "${local.parameter}${var.address_parameter}"]
  }
}

data "aws_iam_policy_document" "head" {
  # Workers may not: what one of them was made to write, all would run.
  statement {
    sid       = "MakePackages"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/packages/*"]
  }

  statement {
    sid       = "KeepResults"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["${var.bucket_arn}/results/*"]
  }

  statement {
    sid       = "KnowTheClusterFileAndHowStartsWent"
    actions   = ["s3:GetObject"]
    resources = ["${var.bucket_arn}/config/*", "${var.bucket_arn}/starts/*"]
  }

  statement {
    sid       = "LookForStartsAndResults"
    actions   = ["s3:ListBucket"]
    resources = [var.bucket_arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["starts/*", "results/*"]
    }
  }

  statement {
    sid       = "LeaveNoHeadBehind"
    actions   = ["autoscaling:SetDesiredCapacity"]
    resources = ["arn:${local.partition}:autoscaling:${var.region}:${local.account}:autoScalingGroup:*:autoScalingGroupName/${var.head_group}"]
  }

  statement {
    sid       = "AnnounceItsAddress"
    actions   = ["ssm:PutParameter"]
    resources = ["${local.parameter}${var.address_parameter}"]
  }

  statement {
    sid = "SeeMachines"
    actions = [
      "ec2:DescribeAvailabilityZones",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeInstances",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:DescribeSecurityGroups",
      "ec2:DescribeSpotPriceHistory",
      "ec2:DescribeSubnets",
      "pricing:GetProducts",
    ]
    resources = ["*"] # these calls know no finer grain
  }

  # The machine itself: only the declared types, with guarded metadata, marked as this cluster's.
  statement {
    sid       = "LaunchDeclaredTypes"
    actions   = ["ec2:RunInstances"]
    resources = ["${local.ec2}:instance/*"]

    condition {
      test     = "StringEquals"
      variable = "ec2:InstanceType"
      values   = var.instance_types
    }

    condition {
      test     = "StringEquals"
      variable = "ec2:MetadataHttpTokens"
      values   = ["required"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/ray-cluster-name"
      values   = [var.name]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/benchorch:stack"
      values   = [var.name]
    }
  }

  statement {
    sid     = "LaunchIntoOurSubnets"
    actions = ["ec2:RunInstances"]
    resources = concat(
      [for id in var.subnet_ids : "${local.ec2}:subnet/${id}"],
      [
        "${local.ec2}:launch-template/*",
        "${local.ec2}:network-interface/*",
        "${local.ec2}:security-group/*",
        "${local.ec2}:spot-instances-request/*",
        "${local.ec2}:volume/*",
        "arn:${local.partition}:ec2:${var.region}::image/*",
      ],
    )
  }

  statement {
    sid       = "MarkWhatIsLaunched"
    actions   = ["ec2:CreateTags"]
    resources = ["${local.ec2}:instance/*", "${local.ec2}:volume/*", "${local.ec2}:network-interface/*"]

    condition {
      test     = "StringEquals"
      variable = "ec2:CreateAction"
      values   = ["RunInstances"]
    }
  }

  # Ray writes a node's state into its tags; only on machines that are this cluster's already.
  statement {
    sid       = "RenewMarks"
    actions   = ["ec2:CreateTags", "ec2:TerminateInstances"]
    resources = ["${local.ec2}:instance/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/ray-cluster-name"
      values   = [var.name]
    }
  }

  # By this mark the reaper finds machines and the budget their cost: it stays as it was at the launch.
  statement {
    sid       = "KeepTheStacksMark"
    effect    = "Deny"
    actions   = ["ec2:CreateTags"]
    resources = ["*"]

    condition {
      test     = "ForAnyValue:StringEquals"
      variable = "aws:TagKeys"
      values   = ["benchorch:stack"]
    }

    condition {
      test     = "Null"
      variable = "ec2:CreateAction"
      values   = ["true"]
    }
  }

  dynamic "statement" {
    for_each = local.disk_keys

    content {
      sid       = "EncryptDisksByTheAccountsKey"
      actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["ec2.${var.region}.amazonaws.com"]
      }
    }
  }

  dynamic "statement" {
    for_each = local.disk_keys

    content {
      sid       = "LetDisksUseTheAccountsKey"
      actions   = ["kms:CreateGrant"]
      resources = [statement.value]

      condition {
        test     = "Bool"
        variable = "kms:GrantIsForAWSResource"
        values   = ["true"]
      }
    }
  }

  statement {
    sid       = "HandOverTheWorkersRoleAndNoOther"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.worker.arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }
}

# Attached to the head by AWS Budgets once the budget is spent, which Terraform does not see.
data "aws_iam_policy_document" "no_more" {
  statement {
    sid       = "NothingIsLaunchedAnyMore"
    effect    = "Deny"
    actions   = ["ec2:RunInstances"]
    resources = ["*"]
  }
}

resource "aws_iam_policy" "no_more" {
  name        = "${var.name}-no-more"
  description = "Attached to the head by the budget once it is spent"
  policy      = data.aws_iam_policy_document.no_more.json
}

# IAM deletes neither a role nor a policy while one is attached to the other: the role is destroyed
# first, and detaches whatever it has.
resource "aws_iam_role" "head" {
  name                  = "${var.name}-head"
  assume_role_policy    = data.aws_iam_policy_document.machines.json
  force_detach_policies = true

  depends_on = [aws_iam_policy.no_more]
}

resource "aws_iam_role" "worker" {
  name               = "${var.name}-worker"
  assume_role_policy = data.aws_iam_policy_document.machines.json
}

resource "aws_iam_role_policy" "node" {
  for_each = { head = aws_iam_role.head.name, worker = aws_iam_role.worker.name }

  name   = "node"
  role   = each.value
  policy = data.aws_iam_policy_document.node.json
}

resource "aws_iam_role_policy" "head" {
  name   = "head"
  role   = aws_iam_role.head.name
  policy = data.aws_iam_policy_document.head.json

  lifecycle {
    precondition {
      condition     = length(replace("${data.aws_iam_policy_document.node.json}${data.aws_iam_policy_document.head.json}", "/\\s/", "")) <= 10240
      error_message = "The head's policies are longer than the 10,240 characters that IAM takes: name fewer types in fleet."
    }
  }
}

# Session Manager instead of SSH: no key, no open port, every session logged. Not the usual
# AmazonSSMManagedInstanceCore: by that one, whoever runs a model here reads every parameter of the account.
resource "aws_iam_role_policy_attachment" "session_manager" {
  for_each = { head = aws_iam_role.head.name, worker = aws_iam_role.worker.name }

  role       = each.value
  policy_arn = "arn:${local.partition}:iam::aws:policy/AmazonSSMManagedEC2InstanceDefaultPolicy"
}

resource "aws_iam_instance_profile" "head" {
  name = "${var.name}-head"
  role = aws_iam_role.head.name
}

resource "aws_iam_instance_profile" "worker" {
  name = "${var.name}-worker"
  role = aws_iam_role.worker.name
}
