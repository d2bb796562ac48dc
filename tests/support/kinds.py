"""A configuration with a destination of every kind."""

EVERY_KIND_TEXT = """
clusters:
  east: {{bootstrap-servers: "localhost:9092"}}
  west: {{bootstrap-servers: "localhost:9093"}}
stores:
  lake: {{type: filesystem, root: "{root}/lake"}}
  views: {{type: filesystem, root: "{root}/views"}}
mirrors:
- name: m
  source: {{cluster: east, topics: [orders]}}
  destinations:
  - {{type: kafka, cluster: west}}
  - {{type: kafka, cluster: west, offsets: map, topic: "mapped.{{topic}}"}}
  - {{type: archive, store: lake}}
  - {{type: archive, store: views, compaction: log}}
"""
"""To be formatted with ``root``, a folder; mirror ``m`` has the destinations, in the order of the kinds."""
