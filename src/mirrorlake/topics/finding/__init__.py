"""Where the partitions of a mirror go, one module for each way to find that out."""
