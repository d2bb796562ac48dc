"""``archive diff``: whether two archives, or an archive and a cluster, hold the same records at the same offsets."""
