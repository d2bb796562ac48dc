"""Where mirrors copy to."""
