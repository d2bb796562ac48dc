"""What destination topics are made like, and how they are kept in step."""
