"""What was measured, in words, tables, plots and cards."""
