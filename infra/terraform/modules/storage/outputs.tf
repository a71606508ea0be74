output "bucket" {
  description = "The bucket's name."
  value       = aws_s3_bucket.this.bucket
}

output "bucket_arn" {
  description = "The bucket."
  value       = aws_s3_bucket.this.arn
}
