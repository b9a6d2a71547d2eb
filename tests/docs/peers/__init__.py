"""The other systems of docs/coming-from.md, asked for the rows that the page says. See __main__.py."""
