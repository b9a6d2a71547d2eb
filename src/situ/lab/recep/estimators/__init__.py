"""What two selections, or batches of them, have in common: counted, estimated or predicted (RECEP, section 3)."""
