"""The verbs of the command line: what each may be told, in the order in which help shows them."""
