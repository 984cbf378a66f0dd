"""The results file and everything that reads or writes it: all SQL is here."""
