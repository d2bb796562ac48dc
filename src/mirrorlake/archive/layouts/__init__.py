"""Archives of other programs, each seen as a store of segments with mirrorlake's names; read only."""
