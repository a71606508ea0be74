# The end that needs no machine of ours: every few minutes a function ends what is older than it may
# be, or has no head; and everything, once the budget is spent.

data "aws_caller_identity" "me" {}

data "aws_partition" "here" {}

locals {
  function = "${var.name}-reaper"
  account  = data.aws_caller_identity.me.account_id
  ec2      = "arn:${data.aws_partition.here.partition}:ec2:${var.region}:${local.account}"
  groups   = "arn:${data.aws_partition.here.partition}:autoscaling:${var.region}:${local.account}:autoScalingGroup"
}

data "aws_iam_policy_document" "lambda" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "reaper" {
  statement {
    sid       = "See"
    actions   = ["ec2:DescribeInstances", "ec2:DescribeVolumes"]
    resources = ["*"] # these calls know no finer grain
  }

  # Both the tag and the role: a tag alone somebody might have copied.
  statement {
    sid       = "EndMachinesOfThisStack"
    actions   = ["ec2:TerminateInstances"]
    resources = ["${local.ec2}:instance/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/benchorch:stack"
      values   = [var.name]
    }

    condition {
      test     = "ArnEquals"
      variable = "ec2:InstanceProfile"
      values   = var.profile_arns
    }
  }

  statement {
    sid       = "RemoveDisksOfThisStack"
    actions   = ["ec2:DeleteVolume"]
    resources = ["${local.ec2}:volume/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/benchorch:stack"
      values   = [var.name]
    }
  }

  statement {
    sid       = "EmptyTheHeadsGroup"
    actions   = ["autoscaling:SetDesiredCapacity"]
    resources = ["${local.groups}:*:autoScalingGroupName/${var.head_group_name}"]
  }

  statement {
    sid       = "SayWhatItEnded"
    actions   = ["sns:Publish"]
    resources = [var.topic_arn]
  }

  statement {
    sid       = "KeepALog"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.reaper.arn}:*"]
  }
}

resource "aws_iam_role" "reaper" {
  name               = local.function
  assume_role_policy = data.aws_iam_policy_document.lambda.json
}

resource "aws_iam_role_policy" "reaper" {
  name   = "reaper"
  role   = aws_iam_role.reaper.name
  policy = data.aws_iam_policy_document.reaper.json
}

resource "aws_cloudwatch_log_group" "reaper" {
  name              = "/aws/lambda/${local.function}"
  retention_in_days = 30
}

resource "aws_lambda_function" "reaper" {
  function_name    = local.function
  description      = "Ends what benchorch's stack ${var.name} should not run any more"
  role             = aws_iam_role.reaper.arn
  runtime          = "python3.12"
  handler          = "reaper.handler"
  filename         = var.program
  source_code_hash = filebase64sha256(var.program)
  timeout          = 300 # machines are ended one by one
  memory_size      = 256

  environment {
    variables = {
      STACK       = var.name
      TTL_MINUTES = tostring(var.ttl_minutes)
      HEAD_GROUP  = var.head_group_name
      PROFILES    = join(",", var.profile_arns)
      TOPIC       = var.topic_arn
    }
  }

  depends_on = [aws_iam_role_policy.reaper, aws_cloudwatch_log_group.reaper]
}

data "aws_iam_policy_document" "scheduler" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }
}

data "aws_iam_policy_document" "invoke" {
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = [aws_lambda_function.reaper.arn]
  }
}

resource "aws_iam_role" "scheduler" {
  name               = "${local.function}-schedule"
  assume_role_policy = data.aws_iam_policy_document.scheduler.json
}

resource "aws_iam_role_policy" "scheduler" {
  name   = "invoke"
  role   = aws_iam_role.scheduler.name
  policy = data.aws_iam_policy_document.invoke.json
}

resource "aws_scheduler_schedule" "reaper" {
  name                = local.function
  schedule_expression = "rate(10 minutes)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_function.reaper.arn
    role_arn = aws_iam_role.scheduler.arn

    retry_policy {
      maximum_event_age_in_seconds = 600
      maximum_retry_attempts       = 2
    }
  }
}

# The budget is spent: the same function ends everything.
resource "aws_lambda_permission" "spent" {
  statement_id  = "spent"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.reaper.function_name
  principal     = "sns.amazonaws.com"
  source_arn    = var.spent_topic_arn
}

resource "aws_sns_topic_subscription" "spent" {
  topic_arn = var.spent_topic_arn
  protocol  = "lambda"
  endpoint  = aws_lambda_function.reaper.arn
}

resource "aws_cloudwatch_metric_alarm" "reaper_fails" {
  alarm_name          = "${local.function}-fails"
  alarm_description   = "The function that ends forgotten machines fails: look at its log, and at make status."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  statistic           = "Sum"
  period              = 1800
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  dimensions          = { FunctionName = local.function }
  alarm_actions       = [var.topic_arn]
}
