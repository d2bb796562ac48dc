"""The running system: what is observed, what each partition's state is, which lease runs next."""
