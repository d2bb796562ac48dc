"""Where MirrorMaker 2 or Mirus stood, so that a copy of theirs goes on without loss or repetition."""
