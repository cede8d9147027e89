"""Tasks made from nothing but a seed: a drawn world of files and a hidden rule, split into train and test.

draw       DNA, scenario, factors, rule and files: draw_world
challenge  splits a world and names its files: make_challenge
board      a leaderboard of trained baselines: make_board
describe   the page that a solver reads

Not covered: checks, thresholds, writing to disk.
"""
