output "bucket" {
  description = "The bucket's name."
  value       = aws_s3_bucket.this.bucket
}

output "bucket_arn" {
  description = "The bucket."
  value       = aws_s3_bucket.this.arn
}

output "wheel" {
  description = "File name of the wheel; it is in packages/DIGEST/."
  value       = local.wheel
}

output "wheel_digest" {
  description = "Its SHA-256."
  value       = local.digests[local.wheel]
}

output "packages" {
  description = "By kind of node, the folder in packages/ with its lock and, once a head has made them, its wheels."
  value       = { for kind, digest in local.locks : kind => "${kind}-${substr(digest, 0, 12)}" }
  depends_on  = [aws_s3_object.wheel, aws_s3_object.lock]
}
