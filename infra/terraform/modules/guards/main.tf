# Who tells when money is spent for nothing: a budget, alarms, and notices of reclaimed machines.

resource "aws_sns_topic" "alarms" {
  name              = "${var.name}-alarms"
  kms_master_key_id = var.key_arn
}

resource "aws_sns_topic_subscription" "email" {
  count = var.email == null ? 0 : 1

  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.email
}

data "aws_iam_policy_document" "topic" {
  statement {
    sid       = "AlarmsMayPublish"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.alarms.arn]

    principals {
      type        = "Service"
      identifiers = ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]
    }
  }
}

resource "aws_sns_topic_policy" "alarms" {
  arn    = aws_sns_topic.alarms.arn
  policy = data.aws_iam_policy_document.topic.json
}

resource "aws_budgets_budget" "monthly" {
  name         = "${var.name}-monthly"
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_budget_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = ["user:benchorch:stack$${var.name}"]
  }

  dynamic "notification" {
    for_each = { half = 50, most = 80, all = 100 }

    content {
      comparison_operator       = "GREATER_THAN"
      threshold                 = notification.value
      threshold_type            = "PERCENTAGE"
      notification_type         = "ACTUAL"
      subscriber_sns_topic_arns = [aws_sns_topic.alarms.arn]
    }
  }
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

resource "aws_cloudwatch_event_rule" "reclaimed" {
  name        = "${var.name}-reclaimed"
  description = "EC2 takes a spot machine back"

  event_pattern = jsonencode({
    source      = ["aws.ec2"]
    detail-type = ["EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"]
  })
}

resource "aws_sqs_queue" "reclaimed" {
  name                      = "${var.name}-reclaimed"
  kms_master_key_id         = var.key_arn
  message_retention_seconds = 3600
}

resource "aws_cloudwatch_event_target" "reclaimed" {
  rule = aws_cloudwatch_event_rule.reclaimed.name
  arn  = aws_sqs_queue.reclaimed.arn
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "NoticesMayArrive"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.reclaimed.arn]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [aws_cloudwatch_event_rule.reclaimed.arn]
    }
  }
}

resource "aws_sqs_queue_policy" "reclaimed" {
  queue_url = aws_sqs_queue.reclaimed.id
  policy    = data.aws_iam_policy_document.queue.json
}
