"""What Spark does, what crosses to Python, and which operators run together in which tasks."""
