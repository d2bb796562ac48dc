"""The command line: one module per verb; each parses, calls and prints. Nothing heavy is imported here."""
