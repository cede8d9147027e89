"""Parts of the scripted model's programs: readers of files, one rough and one fine for each kind of them.

The bank puts a part's text into a program as it stands, without its docstring: these modules are read, not imported.
Every reader takes a column of train.csv and test.csv together, or the whole table, and gives a frame with a row each.
"""
