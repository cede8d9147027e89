"""Tasks made from nothing but a seed: a drawn world of files and a hidden rule.

draw       DNA, scenario, factors, rule and files: draw_world

Not covered: splitting a world and naming its files (tasks.draft), descriptions, checks, writing to disk.
"""
