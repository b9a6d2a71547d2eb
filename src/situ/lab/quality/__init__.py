"""Quality of results: how what was processed compares with what was asked (MCEP, RECEP)."""
