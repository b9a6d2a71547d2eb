"""EdgeCEP's Figure 5 and Tables II and III, again."""
