"""What the progress of a mapped copy says of how its records were made, in headers of its records."""
