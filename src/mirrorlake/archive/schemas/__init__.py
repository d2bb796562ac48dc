"""Schemas of a source's registry, kept in an archive beside the records that name them by their ids."""
