"""Makes tasks: procedural ones, those that a language model writes, and imports of other people's folders."""
