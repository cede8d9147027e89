"""One module per command: its options, then one loop over records. They wire the rooms together; none knows another."""
