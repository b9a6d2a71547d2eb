"""One consumer's operator graph, switched from interest to interest (MCEP, sections 4 and 5.1 to 5.3)."""
