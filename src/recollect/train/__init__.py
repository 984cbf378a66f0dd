"""Training: runs of one shape as one cohort."""
