"""What `mirrorlake archive` lists and checks."""
