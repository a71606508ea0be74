# Who tells, and what happens, when money is spent: a budget that takes the head's right to launch and
# has everything ended, and alarms.

data "aws_caller_identity" "me" {}

data "aws_partition" "here" {}

# Alarms hold no secret, and an encrypted topic would need a key of its own, a dollar a month.
resource "aws_sns_topic" "alarms" {
  name = "${var.name}-alarms"
}

# Whatever is published here ends every machine of the stack.
resource "aws_sns_topic" "spent" {
  name = "${var.name}-spent"
}

resource "aws_sns_topic_subscription" "email" {
  count = var.email == null ? 0 : 1

  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.email
}

data "aws_iam_policy_document" "topic" {
  for_each = { alarms = aws_sns_topic.alarms.arn, spent = aws_sns_topic.spent.arn }

  statement {
    sid       = "OwnServicesMayPublish"
    actions   = ["sns:Publish"]
    resources = [each.value]

    principals {
      type        = "Service"
      identifiers = each.key == "spent" ? ["budgets.amazonaws.com"] : ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.me.account_id]
    }
  }
}

resource "aws_sns_topic_policy" "each" {
  for_each = { alarms = aws_sns_topic.alarms.arn, spent = aws_sns_topic.spent.arn }

  arn    = each.value
  policy = data.aws_iam_policy_document.topic[each.key].json
}

resource "aws_budgets_budget" "monthly" {
  name         = "${var.name}-monthly"
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_budget_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = ["user:benchorch:stack${"$"}${var.name}"]
  }

  # What was used, whoever paid: an account with credits would otherwise stay at zero.
  cost_types {
    include_credit = false
    include_refund = false
  }

  # Budgets mail to an address without asking it first.
  dynamic "notification" {
    for_each = { half = 50, most = 80, all = 100 }

    content {
      comparison_operator        = "GREATER_THAN"
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      notification_type          = "ACTUAL"
      subscriber_sns_topic_arns  = [notification.value == 100 ? aws_sns_topic.spent.arn : aws_sns_topic.alarms.arn]
      subscriber_email_addresses = var.email == null ? [] : [var.email]
    }
  }

  depends_on = [aws_sns_topic_policy.each] # a budget asks whether it may publish
}

# At the budget's end AWS itself takes from the head the right to launch anything.
data "aws_iam_policy_document" "budgets" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["budgets.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.me.account_id]
    }
  }
}

data "aws_iam_policy_document" "attach" {
  statement {
    sid       = "AttachThatPolicyToTheHead"
    actions   = ["iam:AttachRolePolicy", "iam:DetachRolePolicy"]
    resources = ["arn:${data.aws_partition.here.partition}:iam::${data.aws_caller_identity.me.account_id}:role/${var.head_role_name}"]

    condition {
      test     = "ArnEquals"
      variable = "iam:PolicyARN"
      values   = [var.no_more_arn]
    }
  }
}

resource "aws_iam_role" "budgets" {
  name               = "${var.name}-budgets"
  assume_role_policy = data.aws_iam_policy_document.budgets.json
}

resource "aws_iam_role_policy" "budgets" {
  name   = "attach"
  role   = aws_iam_role.budgets.name
  policy = data.aws_iam_policy_document.attach.json
}

resource "aws_budgets_budget_action" "no_more" {
  budget_name        = aws_budgets_budget.monthly.name
  action_type        = "APPLY_IAM_POLICY"
  approval_model     = "AUTOMATIC"
  notification_type  = "ACTUAL"
  execution_role_arn = aws_iam_role.budgets.arn

  action_threshold {
    action_threshold_type  = "PERCENTAGE"
    action_threshold_value = 100
  }

  definition {
    iam_action_definition {
      policy_arn = var.no_more_arn
      roles      = [var.head_role_name]
    }
  }

  subscriber {
    address           = aws_sns_topic.alarms.arn
    subscription_type = "SNS"
  }

  depends_on = [aws_iam_role_policy.budgets]
}

# A head that does nothing for an hour is a head that somebody forgot.
resource "aws_cloudwatch_metric_alarm" "idle_head" {
  alarm_name          = "${var.name}-idle-head"
  alarm_description   = "The head has done nothing for an hour: make destroy, or running=false."
  namespace           = "AWS/EC2"
  metric_name         = "CPUUtilization"
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 12
  threshold           = 5
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "notBreaching"
  dimensions          = { AutoScalingGroupName = var.head_group_name }
  alarm_actions       = [aws_sns_topic.alarms.arn]
}
