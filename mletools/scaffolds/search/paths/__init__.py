"""Exploration paths: which nodes of the graph a search goes on from. Not covered: what is made of them (reasoning, coding)."""
