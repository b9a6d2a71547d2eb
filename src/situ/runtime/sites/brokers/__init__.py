"""Brokers: sites that decide among themselves where tasks run (EdgeCEP, sections III-C.3 and IV)."""
