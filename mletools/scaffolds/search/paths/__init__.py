"""The paths components: which nodes a round makes, and from which parents."""
