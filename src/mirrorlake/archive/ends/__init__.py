"""Where an archive ends: found without listing all of it, remembered, and lost."""
