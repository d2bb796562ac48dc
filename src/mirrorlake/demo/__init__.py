"""What ``mirrorlake demo`` does: two clusters, believable data, and the program itself at work on them."""
