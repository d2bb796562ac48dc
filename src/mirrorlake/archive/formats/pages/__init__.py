"""Pages of Parquet files, read without Arrow."""
