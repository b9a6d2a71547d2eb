"""Mobility: queries whose interest moves with a consumer (MCEP)."""
