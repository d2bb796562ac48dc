"""Clusters and stores: what a file names, and mirrors refer to."""
