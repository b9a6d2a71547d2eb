"""What operators hold between two steps, and how it becomes bytes."""
