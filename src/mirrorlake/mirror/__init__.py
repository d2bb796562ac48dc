"""What a mirror does, apart from where it runs: plans, what is due, policies, and the work of one lease."""
