"""A brute-force oracle, written from docs/language.md. It shares data classes with situ, and no code that matches."""

from oracle.detect import Match, OracleResult, TooLarge, detect

__all__ = ["Match", "OracleResult", "TooLarge", "detect"]
