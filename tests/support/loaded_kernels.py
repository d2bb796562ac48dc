"""Loads the kernels where it is imported: processes forked from that one have them, at no cost of their own."""

from mirrorlake.kafka.records.codec import warm

warm()
