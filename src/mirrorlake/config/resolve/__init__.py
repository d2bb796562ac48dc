"""From what a file says, in either form, to the values the program uses."""
