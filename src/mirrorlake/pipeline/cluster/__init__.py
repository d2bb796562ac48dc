"""What only a cluster of Spark's needs: settings, what its hosts must have, and a look at every executor."""
