"""A Spark that is found, started and understood: Java, jars, versions, workers, errors."""
