"""The schema ids of records: where serializers put them, found without decoding a value."""
