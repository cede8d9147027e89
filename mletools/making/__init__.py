"""Makes tasks: procedural ones, ones written by a language model, imports of existing folders and tables."""
