"""Which source partition goes where: selection, discovery, naming, collisions, circles, creation."""
