"""Which records a mirror copies: an expression of Spark SQL, checked when the file is read, evaluated over columns."""
